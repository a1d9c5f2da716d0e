"""Commands of `hierogram`. They import slow dependencies when they run, so that `--help` is fast."""
