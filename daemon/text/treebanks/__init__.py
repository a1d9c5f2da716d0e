"""Treebanks as input: bracketed trees, packed forests, transformations, ingest."""
