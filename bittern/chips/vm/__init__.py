"""The strict chip in numpy: the evaluator with a kernel for every library function that a model spends time in."""
