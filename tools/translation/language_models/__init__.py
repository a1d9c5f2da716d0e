"""Language models as files: ARPA in and out, the binary form, estimation from text."""
