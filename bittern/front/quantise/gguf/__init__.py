"""GGUF models: encoders of block formats, and the file whose matrices they make."""
