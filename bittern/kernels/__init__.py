"""Hand-scheduled kernels: Python functions that build bitops for any chip, bit-equal to the library definitions."""
