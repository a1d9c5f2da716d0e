"""Chart of a sentence as pools of records: items, edges, and scratch memory for filling cells.

Decoding allocates no memory: if a pool is full, the caller enlarges all pools and restarts.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit_inline
from hierogram.samplers.compiled.probing import capacity_for
from hierogram.samplers.decoding.grammar import PackedGrammar, WeightedGrammar
from hierogram.samplers.language_models.model import LanguageModel

GLUE_START, GLUE_NEXT, GOAL = -1, -2, -3
"""Rule numbers of edges outside the grammar: S → X, S → S X, and the whole sentence with its end symbol."""
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
"""Chart item.

`score`: score of its best derivation. `promised`: log10 probability, without context, of its open words (leading words
that still need left context). `rank`: `score` plus the weighted `promised`. `edges`, `best`: last and best edge.
`state`: language-model state at its right end. `open`: number of open words. `closed`: 1 if no word can be added to the
open ones.
"""

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
"""Hyperedge.

`score`: score with the best derivations of its tails. `own`: score without the tails. `lm`: natural log probability of
the words that it closes. `rule`: rule number, R + e for extra rule e of the sentence, or a rule number above. `tails`,
`arity`: its range of the `tails` pool. `next`: the item's next edge.
"""

CUBE = np.dtype(
    [("base", np.float64), ("rule", np.int32), ("rules", np.int32), ("cells", np.int32), ("arity", np.int32)],
    align=True,
)
"""Rules of one source side over tails in the same cells.

`rule`: first rule's index into `WeightedGrammar.order`. `rules`: number of rules. For a single rule outside the
grammar, `rules` is 0, `rule` its number and `base` its estimated score.
"""

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
"""Position in a cube.

`apart`: sum of the separate estimates of its rule and items. `place`: index of its coordinates. `grown`: first axis
along which it may still grow.
"""

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
"""Candidate with its items joined; fields as in EDGE and ITEM, open words in `opened`."""

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
"""Cached language-model score of a word after a state (`NONE`: empty slot).

`next`: next state. `length`: its length (`NONE`: not looked up). `open`: whether a longer state ends with it.
"""
_MEMORIES = 1 << 14

MATCH = np.dtype([("node", np.int32), ("cells", np.int32), ("arity", np.int32), ("next", np.int32)], align=True)
"""Match of a source side from the current start: `cells` of its nonterminals, `next` match with the same end."""

FRAME = np.dtype(
    [("node", np.int32), ("position", np.int32), ("arity", np.int32), ("gap", np.int32)],
    align=True,
)

_POOLS = 14
ITEMS, EDGES, TAILS, CUBES, CUBE_CELLS, CANDIDATES, COORDINATES = range(7)
HEAP, KEPT, MATCHES, MATCH_CELLS, STAMP, SPARE, SLOTS = range(7, _POOLS)


class InputSentence(NamedTuple):
    """Sentence of n words to translate, with X extra rules of its own, which translate single positions."""

    # int32[n]: word numbers, UNKNOWN_SYMBOL for words that are not in the grammar.
    words: NDArray[np.int32]
    # int32[n+1]: position p has rules `extra_first[p] … extra_first[p + 1] - 1`.
    extra_first: NDArray[np.int32]
    # int32, int32[X+1]: their target words; numbers >= the grammar's vocabulary size are the sentence's own words.
    target: NDArray[np.int32]
    target_start: NDArray[np.int32]
    # int32[X]: 1 if the rule passes a source word through.
    passes: NDArray[np.int32]
    # int32: language-model numbers of the sentence's own words.
    lm_words: NDArray[np.int32]


class SearchLimits(NamedTuple):
    """Search limits: maximum words that a grammar rule may span, maximum pops of a cell (0: no limit)."""

    span: int
    pops: int


class DecodingTask(NamedTuple):
    """Inputs for decoding one sentence."""

    grammar: PackedGrammar
    weighed: WeightedGrammar
    model: LanguageModel
    sentence: InputSentence
    limits: SearchLimits


class DecodingChart(NamedTuple):
    """Pools of records of a chart; w is the maximum number of open words."""

    # ITEM, and int32[items, w]: their open words.
    items: NDArray[np.void]
    fronts: NDArray[np.int32]
    # int32[items], float64[items]: the items of each cell, best first, and their ranks.
    ranked: NDArray[np.int32]
    ranks: NDArray[np.float64]
    # EDGE, and int32: tail items of the edges.
    edges: NDArray[np.void]
    tails: NDArray[np.int32]
    # int32[C, 2]: first and last item + 1. X over [i, j) is cell i (n + 1) + j, S over [0, j) is (n + 1)² + j, the goal
    # follows.
    cells: NDArray[np.int32]
    # int32[h, 2]: hash table of the current cell's items by state, with the cell's stamp.
    slots: NDArray[np.int32]
    # CUBE, and int32: cells of their nonterminals.
    cubes: NDArray[np.void]
    cube_cells: NDArray[np.int32]
    # CANDIDATE, and int32: index of a rule in `WeightedGrammar.order`, then for each nonterminal an index into
    # `ranked`.
    candidates: NDArray[np.void]
    coordinates: NDArray[np.int32]
    # int32, float64: candidates to join, best first, and their estimates.
    heap: NDArray[np.int32]
    estimates: NDArray[np.float64]
    # JOINED, and int32[joined, w]: their open words.
    joined: NDArray[np.void]
    opened: NDArray[np.int32]
    # int32, float64: joined candidates that are kept, a heap with the worst first (in join order if pops are
    # unlimited), and their ranks.
    kept: NDArray[np.int32]
    kept_ranks: NDArray[np.float64]
    # MEMO[m]: cache of language-model scores.
    memo: NDArray[np.void]
    # Scratch memory of the current start.
    matches: NDArray[np.void]
    match_cells: NDArray[np.int32]
    heads: NDArray[np.int32]
    stack: NDArray[np.void]
    path: NDArray[np.int32]
    # int32[w + 1]: open words of the current join.
    front: NDArray[np.int32]
    # int64: number of records in use in each pool and of slots, the cell's stamp, and the spare record of `joined`.
    taken: NDArray[np.int64]


def make_chart(words: int, order: int, size: int) -> DecodingChart:
    """Allocate a chart for sentences of up to `words` words, a language model of `order`, and about `size` items."""
    width = max(order - 1, 1)
    cells = (words + 1) ** 2 + words + 3
    # Records of the current cell or start, whose pools are much smaller than the sentence's.
    current = size // 4
    memo = np.zeros(_MEMORIES, MEMO)
    memo["state"] = NONE
    return DecodingChart(
        items=np.empty(size, ITEM),
        fronts=np.empty((size, width), np.int32),
        ranked=np.empty(size, np.int32),
        ranks=np.empty(size),
        edges=np.empty(3 * size, EDGE),
        tails=np.empty(6 * size, np.int32),
        cells=np.empty((cells, 2), np.int32),
        slots=np.empty((capacity_for(size // 4, 1 << 8), 2), np.int32),
        cubes=np.empty(current, CUBE),
        cube_cells=np.empty(2 * current, np.int32),
        candidates=np.empty(current, CANDIDATE),
        coordinates=np.empty(4 * current, np.int32),
        heap=np.empty(current, np.int32),
        estimates=np.empty(current),
        # One record is spare: the next candidate is joined into it.
        joined=np.empty(current + 1, JOINED),
        opened=np.empty((current + 1, width), np.int32),
        kept=np.empty(current, np.int32),
        kept_ranks=np.empty(current),
        memo=memo,
        matches=np.empty(current, MATCH),
        match_cells=np.empty(2 * current, np.int32),
        heads=np.empty(words + 2, np.int32),
        stack=np.empty(words + 2, FRAME),
        path=np.empty(words + 2, np.int32),
        front=np.empty(width + 1, np.int32),
        taken=np.empty(_POOLS, np.int64),
    )


@njit_inline
def x_cell(task, start, end):
    """Return the cell of X over a span."""
    return start * (len(task.sentence.words) + 1) + end


@njit_inline
def s_cell(task, end):
    """Return the cell of S over the first `end` words, or the goal cell if `end` is the number of words + 1."""
    side = len(task.sentence.words) + 1
    return side * side + end


def span_of(words: int, cell: int) -> tuple[int, int]:
    """Return the span of a cell."""
    first_of_s = (words + 1) ** 2
    if cell >= first_of_s:
        return 0, min(cell - first_of_s, words)
    return divmod(cell, words + 1)
