"""Formats of exported grammars, each a module: how a rule becomes a line, and a line a rule again."""
