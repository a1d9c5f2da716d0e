"""Language model files: reading and writing ARPA, the binary format, estimation from text."""
