"""The primitive operations: one row each, found by name in `bittern.ops.table`."""
