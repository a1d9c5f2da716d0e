"""Demo: a bundled corpus, and a command that learns from it."""
