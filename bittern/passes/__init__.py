"""Level 2: passes over the graph, one file each; every one leaves every bit as it was."""
