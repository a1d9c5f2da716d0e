"""Integer codes of symbols, fixed-point units of rule uses, and size limits.

The sides of many rules are stored in one int32 array. A terminal is its word number, >= 0. Nonterminal k is -k,
numbered from 1 in source order. A frontier nonterminal of a tree fragment is -(k + LABEL_STEP * label). An expansion of
a label is enclosed in two symbols: OPEN_LABEL - 2 * label opens it, OPEN_LABEL - 2 * label - 1 closes it.
"""

MAX_NODES = 0xFFFF
"""Maximum number of nodes of a pair."""
MAX_LABEL = 0x3FFF
"""Largest label. Symbols of fragments with larger labels would collide."""
MAX_EDGES = 0xFFFF
"""Maximum number of incoming edges of a node."""
MAX_TREE = 0x7FFF
"""Maximum number of nodes of a single tree in a forest, and of words of the sentence."""
MAX_TYPE_MOVES = 1 << 20
"""Maximum number of type-based moves after a sweep. Each has its own random stream."""
MAX_SIDE_LENGTH = 361
"""Maximum number n of words of a side: node numbers have 16 bits, and a monotone pair has n(n+1)/2 phrases."""
MAX_ITG_SIDE_LENGTH = 250
"""Maximum number of words of a side of an ITG: charts and word-pair types grow with the product of both sides."""
MAX_ITG_PHRASE_LENGTH = 5
"""Maximum number of words of a side of an ITG phrase: one byte of a derivation encodes both word counts."""


OPEN_LABEL = -(1 << 30)
LABEL_STEP = 1 << 16


ONE_USE = 4096
"""Fixed-point unit of expected uses: integer that represents one use."""
ONE_SQUARE = ONE_USE * ONE_USE
"""Fixed-point unit of variances of expected uses: integer that represents one squared use."""
ONE_MINIMAL_USE = ONE_USE // 8
"""Each use in a minimal derivation adds this amount, in units of 1/`ONE_USE`, to expected uses for translation."""
ONE_COMPOSITION = ONE_USE // 4
"""Each use in a composition adds this amount, in units of 1/`ONE_USE`, to expected uses for translation."""
STEP = ONE_USE // 4
"""Expected uses below this step are rounded at random to 0 or to the step if no other pair uses the rule."""
SHARED_STEP = ONE_USE // 32
"""Step for rules that other pairs also use."""
DRAWS = 128
"""Number of equally likely draws that decide which way expected uses are rounded."""
MAX_SWEEPS = 2048
"""Number of sweeps of an average at which sums and sweeps are halved, so that old sweeps lose weight."""
SHARED_SWEEPS = 128
"""Period in sweeps. A rule counts as shared until one to two periods after the last use by another pair."""
VARIANCE_PER_DRAW = 1
"""Error variance per use if expected uses are estimated from a single draw, as for a Poisson count."""
