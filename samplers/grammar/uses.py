"""Units in which expected uses of rules are kept, and what is kept of them."""

ONE_USE = 4096
"""An expected number of uses is a whole number of this part of a use."""
ONE_SQUARE = ONE_USE * ONE_USE
"""A variance of expected uses is a whole number of this part of a squared use."""
LEAST_SHOWN = ONE_USE // 8
"""What a pair expects of a rule is counted from here on, and below it where others use the rule, too."""
LEAST_KEPT = ONE_USE // 32
"""What a pair expects of a rule is not counted below this, and need not be kept."""
MOST_SWEEPS = 2048
"""An average over so many sweeps goes on as one over half of them: so it forgets, slowly."""
SWEEPS_A_DRAW = 6
"""So many sweeps of a chain tell as much of a rule's expected uses as one independent draw, as measured."""
CLASSES = 4
"""Rules are told apart by how many nonterminals they have: 0, 1, 2, and 3 or more."""
