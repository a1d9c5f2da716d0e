"""The values that a store's settings may have, by name."""

SYNCHRONOUS = "synchronous"
"""Grammar of rules between two languages."""
TREES = "trees"
"""Grammar of tree fragments: a rule's source side is the label of its root, its target side the fragment."""
ITG = "itg"
"""Inversion transduction grammar: word pairs, words without a translation, straight and inverted order."""

FERTILITIES, ITG_ALIGNER = "bhmm-f", "itg"
ALIGNERS = {FERTILITIES: "HMM with fertilities", ITG_ALIGNER: "inversion transduction grammar"}
"""Models that can align the pairs that come into a store, beside what it knows of others."""

PITMAN_YOR = "pitman-yor"
"""Rule model: a Pitman-Yor process for each length [CFGŠ14 §5.2]."""
DIRICHLET = "dirichlet"
"""Rule model: one Dirichlet process [CFGŠ14 §4.1]."""
MODELS = (PITMAN_YOR, DIRICHLET)

FLAT, BETA = "flat", "beta"
SLICES = {FLAT: "uniform below what a rule weighs", BETA: "those of the paper, from Beta(a, 1) off the derivation"}
"""Slice variables of an ITG [BC10 §2, note 3]."""

STRATIFIED = "stratified"
"""Schedule of phrases: small ones first, two levels a sweep, from a temperature below 1 up to 1."""
QUICK = "quick"
"""Schedule of phrases: every node from the first sweep, from a temperature below 1 up to 1."""
PAPER = "paper"
"""Schedule of phrases: small ones first, some sweeps for each level [CFGŠ14 §5.3]."""
ANNEALED = "annealed"
"""Schedule of phrases: every node from the first sweep, from a temperature down to 1 [CGB09 §6]."""
SCHEDULES = {
    STRATIFIED: "short phrases first, of one more word a sweep, rules that are frequent already favored meanwhile",
    QUICK: "every phrase at once, rules that are frequent already favored in the first sweeps",
    PAPER: "short phrases first, some sweeps for each level",
    ANNEALED: "every phrase at once, from a temperature down to 1",
}
"""What each schedule does."""

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
