"""The values that a store's settings may have, by name."""

SYNCHRONOUS = "synchronous"
"""Grammar of rules between two languages."""
TREES = "trees"
"""Grammar of tree fragments: a rule's source side is the label of its root, its target side the fragment."""

PITMAN_YOR = "pitman-yor"
"""Rule model: a Pitman-Yor process for each length [CFGŠ14 §5.2]."""
DIRICHLET = "dirichlet"
"""Rule model: one Dirichlet process [CFGŠ14 §4.1]."""
MODELS = (PITMAN_YOR, DIRICHLET)

UNIFORM = "uniform"
"""Base distribution of tree fragments: P_M of [CGB09]."""
PCFG = "pcfg"
"""Base distribution of tree fragments: P_C of [CGB09]."""
BASES = (UNIFORM, PCFG)

JOINED = "joined"
"""Initial cuts: none, each derivation one rule wherever a cut is not forced."""
CUT = "cut"
"""Initial cuts: everywhere."""
RANDOM = "random"
"""Initial cuts: by the toss of a coin at each node."""
STARTS = (JOINED, CUT, RANDOM)
