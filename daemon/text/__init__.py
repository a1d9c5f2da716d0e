"""Input of parallel corpora: files, formats, tokenization, validation, ingest."""
