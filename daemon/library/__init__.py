"""The library: what `import hierogram` gives, and commands and HTTP are skins of."""
