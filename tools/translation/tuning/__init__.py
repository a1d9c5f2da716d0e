"""Translations beside references: scores of whole texts, and weights that are tuned to them."""
