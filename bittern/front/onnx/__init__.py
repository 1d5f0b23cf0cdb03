"""ONNX and QONNX files as networks: reading them safely, and one row of a table for every operation."""
