"""The typed, immutable, content-addressed graph (level 1): nodes, functions, hashing, `.keg`, printing, evaluation."""
