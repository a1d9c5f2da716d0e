"""Chart of a sentence as pools (arrays of records): items, edges, and scratch memory of a cell.

Kernels allocate no memory. If a pool is full, the caller enlarges all pools and decodes the sentence again.
"""

from enum import IntEnum
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit_inline
from hierogram.samplers.compiled.probing import capacity_for
from hierogram.samplers.decoding.grammar import PackedGrammar, WeightedGrammar
from hierogram.samplers.language_models.model import LanguageModel

GLUE_START, GLUE_NEXT, GOAL = -1, -2, -3
"""Rule numbers outside the grammar: S → X, S → S X, and the goal rule, which adds </s>."""
NONE = -1
"""Missing index, such as the end of a list."""

ITEM = np.dtype(
    [
        ("score", np.float64),
        ("rank", np.float64),
        ("open_log10", np.float64),
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

The *open words* of an item are its first target words, whose n-grams depend on words to their left. The other words are
*closed*.

`score`: score of the best derivation, without the language-model probability of the open words. `open_log10`: log10
probability of the open words without left context. `rank`: `score` plus the weighted natural log of the latter.
`edges`: last edge, which begins the list of the item's edges. `best`: best edge. `cell`: its cell. `state`:
language-model state after the last word. `open`: number of open words. `closed`: 1 if no word to the right can become
an open word.
"""

EDGE = np.dtype(
    [
        ("score", np.float64),
        ("local_score", np.float64),
        ("lm", np.float64),
        ("rule", np.int32),
        ("tails", np.int32),
        ("arity", np.int32),
        ("next", np.int32),
    ],
    align=True,
)
"""Hyperedge.

`score`: score with the best derivations of the tails. `local_score`: score without the tails. `lm`: natural log
probability of the words that this edge closes. `rule`: rule number, R + e for extra rule e of the sentence, or
`GLUE_START`, `GLUE_NEXT` or `GOAL`. `tails`: index of the first tail in the `tails` pool. `arity`: number of tails.
`next`: next edge in the list of the item's edges.
"""

CUBE = np.dtype(
    [
        ("base", np.float64),
        ("rule", np.int32),
        ("rules", np.int32),
        ("cells", np.int32),
        ("arity", np.int32),
        ("next", np.int32),
    ],
    align=True,
)
"""Cube: rules with the same source side, and a cell for each of their nonterminals.

`rule`: index of the first rule in `WeightedGrammar.order`. `rules`: number of rules. For a single rule outside the
grammar, `rules` is 0, `rule` is the rule number, and `base` its estimated score. `cells`: index of the first
nonterminal's cell in `cube_cells`. `arity`: number of nonterminals. `next`: next cube with the same end.
"""

CANDIDATE = np.dtype(
    [
        ("unjoined", np.float64),
        ("score", np.float64),
        ("rank", np.float64),
        ("local_score", np.float64),
        ("lm", np.float64),
        ("open_log10", np.float64),
        ("cube", np.int32),
        ("coordinates", np.int32),
        ("rule", np.int32),
        ("first_axis", np.int32),
        ("state", np.int32),
        ("open", np.int16),
        ("closed", np.int16),
    ],
    align=True,
)
"""Candidate: a position in a cube, which is a rule and an item of each of the cube's cells.

`unjoined`: estimated score of the rule plus ranks of the items, before they are joined. `coordinates`: index of the
first coordinate in the `coordinates` pool. `rule`: rule number as in EDGE. `first_axis`: first axis along which the
candidate may grow. The other fields are as in EDGE and ITEM, and are set when the items are joined.
"""

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
"""Cached language-model score of a word after a state.

`state`: state before the word (`NONE` in an empty slot). `next`: next state. `length`: length of the next state (`NONE`
if not looked up). `open`: 1 if a longer state ends with the next state.
"""
_MEMO_SLOTS = 1 << 14

FRAME = np.dtype([("node", np.int32), ("position", np.int32), ("arity", np.int32), ("gap", np.int32)], align=True)
"""Frame on the stack of the trie search: a trie node whose path matches the words up to `position`.

`arity`: number of nonterminals on the path. `gap`: end of the last nonterminal tried from here.
"""

Pool = IntEnum(
    "Pool",
    "ITEMS EDGES TAILS CUBES CUBE_CELLS CANDIDATES COORDINATES HEAP KEPT STAMP",
    start=0,
)
"""Indices into `DecodingChart.used`."""


class InputSentence(NamedTuple):
    """Sentence of n words to translate. Each of X extra rules translates one word."""

    # int32[n]: word numbers, or UNKNOWN_SYMBOL for words outside the grammar.
    words: NDArray[np.int32]
    # int32[n+1]: position p has the extra rules `extra_first[p]` to `extra_first[p + 1] - 1`.
    extra_first: NDArray[np.int32]
    # int32[words]: target words of all extra rules. V + k, with a vocabulary of V words, is the word of `lm_words[k]`.
    target: NDArray[np.int32]
    # int32[X+1]: index into `target` of the first word of each extra rule.
    target_start: NDArray[np.int32]
    # int32[X]: 1 for extra rules that pass a source word through, otherwise 0.
    passes: NDArray[np.int32]
    # int32[K]: language-model numbers of the target words of extra rules that are not in the vocabulary.
    lm_words: NDArray[np.int32]


class SearchLimits(NamedTuple):
    """Maximum words of a grammar rule's span, and candidates kept per cell (`pops`, 0 for no limit)."""

    span: int
    pops: int


class DecodingTask(NamedTuple):
    """Sentence to decode, with the grammar, its weights, the language model and limits."""

    grammar: PackedGrammar
    weighed: WeightedGrammar
    model: LanguageModel
    sentence: InputSentence
    limits: SearchLimits


class DecodingChart(NamedTuple):
    """Pools of records of a chart. An item has up to w open words. A cell is X, S or the goal over a span."""

    # ITEM[items]: items of all cells.
    items: NDArray[np.void]
    # int32[items, w]: open words of each item.
    item_words: NDArray[np.int32]
    # int32[items]: items of each cell, best first.
    ranked: NDArray[np.int32]
    # float64[items]: rank of each item in the order of `ranked`.
    ranks: NDArray[np.float64]
    # EDGE[edges]: edges of all items.
    edges: NDArray[np.void]
    # int32[tails]: tails of all edges, as item numbers.
    tails: NDArray[np.int32]
    # int32[C, 2]: half-open range of each cell's items in `ranked`. X over [i, j) has cell i (n + 1) + j, S over [0, j)
    # has cell (n + 1)² + j, and the goal has the next cell.
    cells: NDArray[np.int32]
    # int32[h, 2]: hash table of the items of the current cell, at most half full. A slot has an item, and the stamp of
    # the item's cell.
    slots: NDArray[np.int32]
    # CUBE[cubes]: cubes of the current start position, or of the current end position of S.
    cubes: NDArray[np.void]
    # int32[cube cells]: cells of the nonterminals of all cubes.
    cube_cells: NDArray[np.int32]
    # int32[n + 2]: last cube for each end, which begins the list of the cubes with this end.
    heads: NDArray[np.int32]
    # CANDIDATE[candidates]: candidates of the current cell.
    candidates: NDArray[np.void]
    # int32[candidates, w]: open words of each joined candidate.
    candidate_words: NDArray[np.int32]
    # int32[coordinates]: coordinates of all candidates. A candidate has the index of a rule in `WeightedGrammar.order`,
    # then an index into `ranked` for each nonterminal.
    coordinates: NDArray[np.int32]
    # int32[candidates]: heap of candidates to join, with the best on top. It also sorts the items of a cell.
    heap: NDArray[np.int32]
    # float64[candidates]: estimated score of each candidate, or rank of each item, in the order of `heap`.
    estimates: NDArray[np.float64]
    # int32[candidates]: kept candidates. With a pop limit, they form a heap with the worst on top.
    kept: NDArray[np.int32]
    # float64[candidates]: rank of each candidate in the order of `kept`.
    kept_ranks: NDArray[np.float64]
    # MEMO[m]: cache of language-model scores.
    memo: NDArray[np.void]
    # FRAME[n + 2]: stack of the trie search.
    stack: NDArray[np.void]
    # int32[n + 2]: cells of the nonterminals of the next cube.
    path: NDArray[np.int32]
    # int32[w + 1]: open words of the candidate that is being joined.
    open_words: NDArray[np.int32]
    # int64[10]: number of used records of each pool, and the stamp of the current cell at `STAMP`.
    used: NDArray[np.int64]


def make_chart(words: int, order: int, size: int, pops: int) -> DecodingChart:
    """Allocate a chart for up to `words` words, a model of `order`, `size` items, and the limit `pops`."""
    width = max(order - 1, 1)
    cells = (words + 1) ** 2 + words + 3
    # Pools for one cell or one start position are reused, so they are smaller than pools for the whole sentence.
    current = size // 4
    memo = np.zeros(_MEMO_SLOTS, MEMO)
    memo["state"] = NONE
    return DecodingChart(
        items=np.empty(size, ITEM),
        item_words=np.empty((size, width), np.int32),
        ranked=np.empty(size, np.int32),
        ranks=np.empty(size),
        edges=np.empty(3 * size, EDGE),
        tails=np.empty(6 * size, np.int32),
        cells=np.empty((cells, 2), np.int32),
        # A low pop limit needs fewer slots, which stay in the CPU cache.
        slots=np.empty((capacity_for(min(current, pops or current), 1 << 8), 2), np.int32),
        cubes=np.empty(current, CUBE),
        cube_cells=np.empty(2 * current, np.int32),
        heads=np.empty(words + 2, np.int32),
        candidates=np.empty(current, CANDIDATE),
        candidate_words=np.empty((current, width), np.int32),
        coordinates=np.empty(4 * current, np.int32),
        heap=np.empty(current, np.int32),
        estimates=np.empty(current),
        kept=np.empty(current, np.int32),
        kept_ranks=np.empty(current),
        memo=memo,
        stack=np.empty(words + 2, FRAME),
        path=np.empty(words + 2, np.int32),
        open_words=np.empty(width + 1, np.int32),
        used=np.empty(len(Pool), np.int64),
    )


@njit_inline
def x_cell(task, start, end):
    """Return the cell of X over [start, end)."""
    return start * (len(task.sentence.words) + 1) + end


@njit_inline
def s_cell(task, end):
    """Return the cell of S over the first `end` words, or of the goal if `end` is the number of words + 1."""
    side = len(task.sentence.words) + 1
    return side * side + end


def cell_span(words: int, cell: int) -> tuple[int, int]:
    """Return the span [start, end) of a cell in the chart of a sentence of `words` words."""
    first_of_s = (words + 1) ** 2
    if cell >= first_of_s:
        return 0, min(cell - first_of_s, words)
    return divmod(cell, words + 1)
