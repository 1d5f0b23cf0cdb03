"""ONNX models: running them for calibration, choosing what is quantised, writing QDQ and QONNX files."""
