"""Networks: programs of layers whose weights are constants, whatever they were read from."""
