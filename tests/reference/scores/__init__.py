"""Twins of scores, from docs/model.md, section 8."""
