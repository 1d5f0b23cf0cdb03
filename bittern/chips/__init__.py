"""Chips: what runs a model, or refuses by name. One folder a chip."""
