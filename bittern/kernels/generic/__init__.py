"""Generic lowering: any function of the graph as kernels, without one written for it. Start at `lower`."""
