"""Word alignment: of files, of pairs that arrive, and its evaluation."""
