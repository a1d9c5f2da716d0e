"""The chart of a sentence as pools of records: items, edges, and what cells need while they are filled.

Nothing is allocated while a sentence is decoded. Where a pool is full, the caller makes all pools larger and begins
again.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit_inline
from hierogram.samplers.compiled.probing import capacity_for
from hierogram.samplers.decoding.grammar import Grammar, Weighed
from hierogram.samplers.language_models.model import LanguageModel

GLUE_START, GLUE_NEXT, GOAL = -1, -2, -3
"""Rules of edges that no grammar holds: S → X, S → S X, and the whole sentence with its end."""
NONE = -1

ITEM = np.dtype(
    [
        ("score", np.float64),
        ("rank", np.float64),
        ("promised", np.float64),
        ("edges", np.int32),
        ("best", np.int32),
        ("cell", np.int32),
        ("state", np.int32),
        ("open", np.int16),
        ("closed", np.int16),
    ],
    align=True,
)
"""Score of the best derivation; the same with what the open words promise; log10 probability of these, from no context;
its last edge and its best one; its cell; state of the language model at its end; how many words at its front are open;
whether others follow them."""

EDGE = np.dtype(
    [
        ("score", np.float64),
        ("own", np.float64),
        ("lm", np.float64),
        ("rule", np.int32),
        ("tails", np.int32),
        ("arity", np.int32),
        ("next", np.int32),
    ],
    align=True,
)
"""Score with the best derivations of its tails; score of its own; natural log probability of the words that it closes;
a rule's number, R + e for extra rule e of the sentence, or one of the three above; its tails; the item's next edge."""

CUBE = np.dtype(
    [("base", np.float64), ("rule", np.int32), ("rules", np.int32), ("cells", np.int32), ("arity", np.int32)],
    align=True,
)
"""Rules of one source side over tails in the same cells: its first rule's place in the order, how many there are. Of a
single rule that is in no grammar: `rules` is 0, `rule` is the rule of its edges, `base` what it promises."""

CANDIDATE = np.dtype(
    [
        ("apart", np.float64),
        ("cube", np.int32),
        ("place", np.int32),
        ("rule", np.int32),
        ("grown", np.int32),
    ],
    align=True,
)
"""A place in a cube: what its rule and items promise, each on its own; its rule and coordinates; the first axis along
which it may still grow."""

JOINED = np.dtype(
    [
        ("score", np.float64),
        ("rank", np.float64),
        ("own", np.float64),
        ("lm", np.float64),
        ("promised", np.float64),
        ("rule", np.int32),
        ("place", np.int32),
        ("arity", np.int32),
        ("state", np.int32),
        ("open", np.int16),
        ("closed", np.int16),
    ],
    align=True,
)
"""A candidate whose items are joined: as in EDGE and ITEM; its open words are in `opened`."""

MEMO = np.dtype(
    [
        ("log10", np.float64),
        ("state", np.int32),
        ("word", np.int32),
        ("next", np.int32),
        ("length", np.int16),
        ("open", np.int16),
    ],
    align=True,
)
"""A word after a state of the language model (`NONE`: nothing is kept here), as the model scores it; length of the next
state (`NONE`: nobody has asked for it), and whether a longer one ends with it."""
_MEMORIES = 1 << 14

MATCH = np.dtype([("node", np.int32), ("cells", np.int32), ("arity", np.int32), ("next", np.int32)], align=True)
"""A source side that matches from the present start; the cells of its nonterminals; another match with this end."""

FRAME = np.dtype(
    [("node", np.int32), ("position", np.int32), ("arity", np.int32), ("gap", np.int32)],
    align=True,
)

_POOLS = 14
ITEMS, EDGES, TAILS, CUBES, CUBE_CELLS, CANDIDATES, COORDINATES = range(7)
HEAP, KEPT, MATCHES, MATCH_CELLS, STAMP, SPARE, SLOTS = range(7, _POOLS)


class InputSentence(NamedTuple):
    """A sentence of n words to translate, and the rules that it brings along.

    `words` int32[n], UNKNOWN_SYMBOL where the grammar lacks one. Extra rules translate single positions: position p's
    are `extra_first[p] … extra_first[p + 1] - 1`, int32[n+1]; their target words `target` int32 (numbers from the
    grammar's vocabulary on are the sentence's own words) by `target_start` int32[X+1]; `passes` int32[X]: 1 where a
    source word is passed through. `lm_words` int32: the language model's numbers of the sentence's own words.
    """

    words: NDArray[np.int32]
    extra_first: NDArray[np.int32]
    target: NDArray[np.int32]
    target_start: NDArray[np.int32]
    passes: NDArray[np.int32]
    lm_words: NDArray[np.int32]


class Limits(NamedTuple):
    """Bounds of the search: words that a rule of the grammar may span, pops of a cell (0: no bound)."""

    span: int
    pops: int


class DecodingTask(NamedTuple):
    """All that a sentence is decoded with."""

    grammar: Grammar
    weighed: Weighed
    model: LanguageModel
    sentence: InputSentence
    limits: Limits


class DecodingChart(NamedTuple):
    """Pools: `items` ITEM, `fronts` int32[items, w] their open words, `ranked` int32[items] each cell's, best first,
    `ranks` float64[items] their ranks, `edges` EDGE, `tails` int32 their tails' items. `cells` int32[C, 2]: first and
    last item + 1; X over [i, j) is cell i (n + 1) + j, S over [0, j) is (n + 1)² + j, the goal follows. `slots`
    int32[h, 2]: the items of the cell at hand by state, and the stamp of the cell. `candidates` CANDIDATE;
    `coordinates` int32: the place of a rule in the grammar's order, and of an item for each nonterminal among the
    ranked ones. `heap` int32: candidates to be joined, a heap with the best one first; `promises`
    float64 what they promise. `joined` JOINED, `opened` int32[joined, w] their open words; `kept` int32: those that are
    not given up, a heap with the worst one first (without a bound, in the order in which they are joined); `kept_ranks`
    float64 their ranks. `memo` MEMO[m]: what the language model was asked last. The others are for the cell or the
    start at hand. `taken` int64: how many records of each pool are in use; the stamp of the cell; the record of
    `joined` that is spare; how many slots are in use. `front` int32[w + 1]: the open words of what is joined at hand.
    """

    items: NDArray[np.void]
    fronts: NDArray[np.int32]
    ranked: NDArray[np.int32]
    ranks: NDArray[np.float64]
    edges: NDArray[np.void]
    tails: NDArray[np.int32]
    cells: NDArray[np.int32]
    slots: NDArray[np.int32]
    cubes: NDArray[np.void]
    cube_cells: NDArray[np.int32]
    candidates: NDArray[np.void]
    coordinates: NDArray[np.int32]
    heap: NDArray[np.int32]
    promises: NDArray[np.float64]
    joined: NDArray[np.void]
    opened: NDArray[np.int32]
    kept: NDArray[np.int32]
    kept_ranks: NDArray[np.float64]
    memo: NDArray[np.void]
    matches: NDArray[np.void]
    match_cells: NDArray[np.int32]
    heads: NDArray[np.int32]
    stack: NDArray[np.void]
    path: NDArray[np.int32]
    front: NDArray[np.int32]
    taken: NDArray[np.int64]


def make_chart(words: int, order: int, size: int) -> DecodingChart:
    """Room for sentences of at most `words` words under a language model of `order`, and about `size` items."""
    width = max(order - 1, 1)
    cells = (words + 1) ** 2 + words + 3
    memo = np.zeros(_MEMORIES, MEMO)
    memo["state"] = NONE
    return DecodingChart(
        items=np.zeros(size, ITEM),
        fronts=np.zeros((size, width), np.int32),
        ranked=np.zeros(size, np.int32),
        ranks=np.zeros(size),
        edges=np.zeros(2 * size, EDGE),
        tails=np.zeros(4 * size, np.int32),
        cells=np.zeros((cells, 2), np.int32),
        slots=np.zeros((capacity_for(size // 4, 1 << 8), 2), np.int32),
        cubes=np.zeros(size, CUBE),
        cube_cells=np.zeros(2 * size, np.int32),
        candidates=np.zeros(size, CANDIDATE),
        coordinates=np.zeros(4 * size, np.int32),
        heap=np.zeros(size, np.int32),
        promises=np.zeros(size),
        # One more is spare.
        joined=np.zeros(size + 1, JOINED),
        opened=np.zeros((size + 1, width), np.int32),
        kept=np.zeros(size, np.int32),
        kept_ranks=np.zeros(size),
        memo=memo,
        matches=np.zeros(size, MATCH),
        match_cells=np.zeros(2 * size, np.int32),
        heads=np.zeros(words + 2, np.int32),
        stack=np.zeros(words + 2, FRAME),
        path=np.zeros(words + 2, np.int32),
        front=np.zeros(width + 1, np.int32),
        taken=np.zeros(_POOLS, np.int64),
    )


@njit_inline
def x_cell(task, start, end):
    """Cell of X over a span."""
    return start * (len(task.sentence.words) + 1) + end


@njit_inline
def s_cell(task, end):
    """The cell of S over the first `end` words; that of the goal where `end` is one more than there are."""
    side = len(task.sentence.words) + 1
    return side * side + end


def span_of(words: int, cell: int) -> tuple[int, int]:
    """Span of a cell."""
    first_of_s = (words + 1) ** 2
    if cell >= first_of_s:
        return 0, min(cell - first_of_s, words)
    return divmod(cell, words + 1)
