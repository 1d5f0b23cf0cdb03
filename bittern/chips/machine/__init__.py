"""What machine chips share: the buffer that an assembler fills, executable memory, and calls into it."""
