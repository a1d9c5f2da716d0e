"""Input of parallel corpora: file reading, formats, validation, ingest."""
