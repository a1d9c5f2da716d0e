"""Twins of the pair scores of docs/model.md, section 8."""
