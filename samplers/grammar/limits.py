"""What the numbers in the arrays of forests can tell apart."""

MAX_NODES = 0xFFFF
"""Nodes that one pair may have."""
MAX_LABEL = 0x3FFF
"""The largest label; beyond it the symbols of fragments would run into each other."""
MAX_TREE = 0x7FFF
"""Nodes in one tree of a forest, and words of a tree's sentence."""
MOST_TYPE_MOVES = 1 << 20
"""Type-based moves after one sweep; each has a random stream of its own."""
LONGEST_SIDE = 361
"""Words of a monotone pair whose phrases a forest's 16-bit node numbers can still hold: n(n+1)/2 < 2^16."""
LONGEST_ITG_SIDE = 250
"""Most words of a side of an ITG: charts and the types of word pairs grow with the product of both sides."""
