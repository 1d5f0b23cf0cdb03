"""Bitops: a small loop-and-vector IR for one kernel, independent of any chip and of the graph."""
