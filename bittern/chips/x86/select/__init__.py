"""Instruction selection for x86-64: from a legalised bitops kernel to a routine with virtual registers."""
