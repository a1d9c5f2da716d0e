"""Commands of `hierogram`. Each command imports its slow dependencies when it runs, so that `--help` is fast."""
