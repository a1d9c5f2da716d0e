"""Language models: ARPA files, the binary format, and estimation from text."""
