"""x86-64: registers, instruction rows, the encoder made of them, and what this machine's processor can do."""
