"""Kinds of grammar: how pairs are loaded, sampled, counted and shown."""
