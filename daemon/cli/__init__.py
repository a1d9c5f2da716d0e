"""Commands of `hierogram`, by topic. They import their dependencies when they run, so that `--help` is fast."""
