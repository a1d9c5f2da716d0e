"""Python library of `import hierogram`, which commands and HTTP routes also use."""
