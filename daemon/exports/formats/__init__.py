"""Formats of exported grammars, one module per family: a rule as a line, and a line as a rule."""
