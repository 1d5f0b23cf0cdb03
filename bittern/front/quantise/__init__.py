"""Quantisers: grids of codes, scales from data, rounding that knows its inputs, and the files that hold the result.

`ordered` has the arithmetic: whatever is computed here has the same bits on every machine and any number of threads.
"""
