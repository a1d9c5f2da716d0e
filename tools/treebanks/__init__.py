"""Parsing with tree-substitution grammars: grammars, chart approximation, parser, evaluation."""
