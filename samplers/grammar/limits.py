"""What the numbers in the arrays of forests can tell apart."""

MAX_NODES = 0xFFFF
"""Nodes that one pair may have."""
MAX_LABEL = 0x3FFF
"""The largest label; beyond it the symbols of fragments would run into each other."""
MAX_TREE = 0x7FFF
"""Nodes in one tree of a forest, and words of a tree's sentence."""
MOST_TYPE_MOVES = 1 << 20
"""Type-based moves after one sweep; each has a random stream of its own."""
