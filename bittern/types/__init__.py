"""What a value is: element, dimensions, space; and the block formats in which weights are stored."""
