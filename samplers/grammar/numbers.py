"""Numbers that stand for symbols and uses of rules, and how large numbers may be; without numpy.

The sides of many rules lie in one array of int32. A terminal is its word's number, 0 or more. Nonterminal k is -k,
counted from 1 in source order. A frontier nonterminal of a tree fragment is -(k + LABEL_STEP * label), and an expansion
of a label stands between two symbols: OPEN_LABEL - 2 * label opens it, one less closes it.
"""

MAX_NODES = 0xFFFF
"""Nodes that one pair may have."""
MAX_LABEL = 0x3FFF
"""The largest label; beyond it the symbols of fragments would run into each other."""
MAX_EDGES = 0xFFFF
"""Incoming edges that one node may have."""
MAX_TREE = 0x7FFF
"""Nodes in one tree of a forest, and words of a tree's sentence."""
MOST_TYPE_MOVES = 1 << 20
"""Type-based moves after one sweep; each has a random stream of its own."""
LONGEST_SIDE = 361
"""Words of a monotone pair whose phrases a forest's 16-bit node numbers can still hold: n(n+1)/2 < 2^16."""
LONGEST_ITG_SIDE = 250
"""Most words of a side of an ITG: charts and the types of word pairs grow with the product of both sides."""
LONGEST_ITG_PHRASE = 5
"""Most words of a side of a phrase that an ITG emits: a derivation's byte says both sides' numbers of words."""


OPEN_LABEL = -(1 << 30)
LABEL_STEP = 1 << 16


ONE_USE = 4096
"""An expected number of uses is a whole number of this part of a use."""
ONE_SQUARE = ONE_USE * ONE_USE
"""A variance of expected uses is a whole number of this part of a squared use."""
ONE_MINIMAL_USE = ONE_USE // 8
"""A use in a minimal derivation, in the same unit, as it is added to expected uses for translating."""
ONE_COMPOSITION = ONE_USE // 4
"""A use in a composition, in the same unit, likewise."""
LEAST_SHOWN = ONE_USE // 8
"""What a pair expects of a rule is counted from here on, and below it where others use the rule, too."""
LEAST_KEPT = ONE_USE // 32
"""What a pair expects of a rule is not counted below this, and need not be kept."""
MOST_SWEEPS = 2048
"""An average over so many sweeps goes on as one over half of them: so it forgets, slowly."""
SHARED_SWEEPS = 128
"""A rule counts as used by others, too, for so many sweeps after it was, or up to twice as many."""
SWEEPS_A_DRAW = 6
"""So many sweeps of a chain tell as much of a rule's expected uses as one independent draw, as measured."""
CLASSES = 4
"""Rules are told apart by how many nonterminals they have: 0, 1, 2, and 3 or more."""
