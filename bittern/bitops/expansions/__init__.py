"""How kinds that a target lacks are made of others, one file a family."""
