"""Named values of a store's settings."""

SYNCHRONOUS = "synchronous"
"""Synchronous grammar of phrase rules."""
TREES = "trees"
"""Grammar of rules with a root label as source side and a tree fragment as target side."""
ITG = "itg"
"""Inversion transduction grammar of word pairs, null words, and straight and inverted order."""

FERTILITIES, ITG_ALIGNER = "bhmm-f", "itg"
ALIGNERS = {FERTILITIES: "HMM with fertilities", ITG_ALIGNER: "inversion transduction grammar"}
"""Alignment models for new pairs, with their descriptions."""

PITMAN_YOR = "pitman-yor"
"""Rule model: one Pitman-Yor process for each rule length [CFGŠ14 §5.2]."""
DIRICHLET = "dirichlet"
"""Rule model: one Dirichlet process [CFGŠ14 §4.1]."""
MODELS = (PITMAN_YOR, DIRICHLET)

FLAT, BETA = "flat", "beta"
SLICES = {FLAT: "uniform below the weight of the rule", BETA: "as in the paper, Beta(a, 1) off the derivation"}
"""Distributions of the slice variables of an ITG, with their descriptions [BC10 §2, note 3]."""

STRATIFIED = "stratified"
"""Schedule for phrases: short phrases first, two more levels per sweep, temperature rising to 1."""
QUICK = "quick"
"""Schedule for phrases: every node from the first sweep, with the temperature rising to 1."""
PAPER = "paper"
"""Schedule for phrases: short phrases first, several sweeps per level [CFGŠ14 §5.3]."""
ANNEALED = "annealed"
"""Schedule for phrases: every node from the first sweep, with the temperature falling to 1 [CGB09 §6]."""
SCHEDULES = {
    STRATIFIED: "phrases grow by one word per sweep",
    QUICK: "all phrases at once",
    PAPER: "phrases grow over several sweeps",
    ANNEALED: "temperature falls to 1",
}
"""Descriptions of the schedules."""

UNIFORM = "uniform"
"""Base distribution of tree fragments with uniform expansions: P_M [CGB09]."""
PCFG = "pcfg"
"""Base distribution of tree fragments with the treebank's relative frequencies: P_C [CGB09]."""
BASES = (UNIFORM, PCFG)

JOINED = "joined"
"""Initial cuts only at nodes where a cut is forced."""
CUT = "cut"
"""Initial cuts at every node."""
RANDOM = "random"
"""Initial cuts at each node with probability 1/2."""
STARTS = (JOINED, CUT, RANDOM)
