"""Language model files: reading and writing ARPA, the binary form, estimation from text."""
