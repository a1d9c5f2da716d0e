"""Sentence pairs: ingest, identity, vocabulary, withdrawal."""
