"""Commands of `hierogram`. Each imports its dependencies when it runs, so that `--help` is fast."""
