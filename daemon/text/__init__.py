"""Parallel corpora on their way in: reading, formats, validation, ingest."""
