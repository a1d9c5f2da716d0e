"""The Model Context Protocol: a store as tools of language models."""
