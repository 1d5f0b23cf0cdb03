"""The language `.btn`: lexer, parser, names, types, effects, ownership, elaboration to the graph, formatting."""
