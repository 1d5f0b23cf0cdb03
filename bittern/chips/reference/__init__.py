"""The reference: the same graph in float64, weights decoded, activations not quantised. Judges all other chips."""
