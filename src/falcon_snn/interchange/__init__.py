"""To and from other tools: NIR and ONNX out, NIR and torch modules in."""
