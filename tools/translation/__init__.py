"""Translation of text with the grammar of a file or of a store, corrections, tuning and evaluation."""
