"""The plan: a function for one chip becomes launches of kernels over planned buffers."""
