"""Word alignment of files, of stored pairs and of single texts."""
