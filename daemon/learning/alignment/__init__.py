"""Word alignment of files and of new pairs, and its evaluation."""
