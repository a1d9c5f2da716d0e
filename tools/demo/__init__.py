"""Demo: a bundled corpus, and a command that learns a grammar from it."""
