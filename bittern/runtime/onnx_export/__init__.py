"""Networks as ONNX files that other tools run: plain operators with the same integers, QDQ, QONNX."""
