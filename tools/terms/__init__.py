"""Bilingual term extraction: terms, their usual renderings, and pairs that render a term differently."""
