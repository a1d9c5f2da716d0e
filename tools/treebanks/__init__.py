"""Parsing with tree-substitution grammars, and evaluation of parses."""
