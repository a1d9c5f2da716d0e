"""The Python library. `import hierogram` gives its names; commands and HTTP routes call it."""
