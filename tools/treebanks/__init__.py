"""Treebanks: trees in brackets, what is done to them before learning, and grammars of their fragments."""
