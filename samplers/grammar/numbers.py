"""Integer codes of symbols, fixed-point units of rule uses, and size limits.

The sides of many rules are stored in one int32 array. A terminal is stored as its word number, >= 0. Nonterminal k of a
phrase rule, numbered from 1 in source order, is stored as -k. A frontier nonterminal of a tree fragment is stored as
-(k + LABEL_STEP * label), with k as in phrase rules. An expanded node is enclosed in two symbols:
OPEN_LABEL - 2 * label opens it, and OPEN_LABEL - 2 * label - 1 closes it.
"""

MAX_NODES = 0xFFFF
"""Maximum number of nodes of a pair's forest."""
MAX_LABEL = 0x3FFF
"""Largest label number. Symbols of fragments with larger labels would collide."""
MAX_EDGES = 0xFFFF
"""Maximum number of incoming edges of a node."""
MAX_TREE = 0x7FFF
"""Maximum number of nodes of one tree in a forest, and of words of its sentence."""
MAX_TYPE_MOVES = 1 << 20
"""Maximum number of type-based moves after a sweep. Each move has its own random stream."""
MAX_SIDE_LENGTH = 361
"""Maximum number of words of a side: the n(n+1)/2 possible phrases of n words are numbered in 16 bits."""
MAX_ITG_SIDE_LENGTH = 250
"""Maximum number of words of a side for an ITG, because charts grow with the product of both sides."""
MAX_ITG_PHRASE_LENGTH = 5
"""Maximum number of words of a side of an ITG phrase, because one byte encodes both word counts."""


OPEN_LABEL = -(1 << 30)
LABEL_STEP = 1 << 16

ONE_USE = 4096
"""Integer that represents one use in fixed-point numbers of expected uses."""
ONE_SQUARE = ONE_USE * ONE_USE
"""Integer that represents one squared use in fixed-point variances of expected uses."""
ONE_MINIMAL_USE = ONE_USE // 8
"""Expected uses that a use in a minimal derivation adds for translation, in units of 1/`ONE_USE`."""
ONE_COMPOSITION = ONE_USE // 4
"""Amount that a use in a composition adds to expected uses for translation, in units of 1/`ONE_USE`."""
ROUNDING_STEP = ONE_USE // 4
"""Rounding step of rules that are not shared. Smaller uses are rounded at random to 0 or the step."""
SHARED_ROUNDING_STEP = ONE_USE // 32
"""Rounding step of shared rules, which other pairs also use, and of all rules of an ITG."""
ROUNDING_DRAWS = 128
"""Random numbers 0, 1, … below this limit decide if expected uses are rounded up or down."""
MAX_SWEEPS = 2048
"""Number of averaged sweeps at which sums and sweeps are halved, so that old sweeps lose weight."""
SHARED_PERIOD = 128
"""Period in sweeps. A rule counts as shared for one to two periods after another pair last used it."""
VARIANCE_PER_DRAW = 1
"""Error variance per use if expected uses are estimated from one draw, as for a Poisson count."""
