"""Sentence pairs: ingest, identities, vocabulary and withdrawal."""
