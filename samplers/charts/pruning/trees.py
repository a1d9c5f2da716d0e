"""Randomized pruning of the charts that trees are parsed with, for long sentences and large grammars.

The variables are spans, of which no two cross: those of the tree that a cheap model likes best. So each of them can be
freed alone, and the chain converges.
"""

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.charts.chart import Chart, SentenceGrammar, cell_of, fill_chart
from hierogram.samplers.charts.derivations import Forest, SentenceKey
from hierogram.samplers.charts.hypergraph import Key
from hierogram.samplers.charts.pruning.chain import PruningState
from hierogram.samplers.charts.pruning.selection import first_selection, next_selection
from hierogram.samplers.charts.pruning.systems import keep_spans
from hierogram.samplers.exceptions import GrammarError

_BRANCHING = 2
"""Rules are binary."""


class TreePruningKernel:
    """The chain of masks over one sentence. `number` keys its random streams, beside the seed."""

    def __init__(self, grammar: SentenceGrammar, root: int, spans: NDArray[np.int32], number: int) -> None:
        """`spans` int32[V, 2], half open."""
        self._grammar = grammar
        self._root = root
        self._spans = spans
        self._number = number
        words = grammar.words
        self._kept = np.ones(words * (words + 1) // 2, np.bool_)

    def init(self, key: int) -> PruningState:
        """A derivation with as many spans as can be: they are dropped one after the other until there is one.

        Raises `GrammarError` where there is no derivation at all.
        """
        required = np.ones(len(self._spans), np.bool_)
        whole = self._root, 0, self._grammar.words
        while not np.isfinite((chart := self._fill(required, required)).log_weight(*whole)):
            left = np.flatnonzero(required)
            if not len(left):
                raise GrammarError("the sentence has no derivation")
            required[left[0]] = False
        forest = Forest(self._grammar, chart, self._root)
        selected = first_selection(len(self._spans), _BRANCHING, Key(key, self._number, 1))
        return PruningState(selected, self._drawn(forest, key, 0)[None])

    def step(self, key: int, state: PruningState, plan: int) -> tuple[PruningState, Forest]:
        """One mask more, `plan` from 1, and the derivations that it keeps."""
        selected = next_selection(state.selected, Key(key, self._number, 2 * plan + 1))
        forest = Forest(self._grammar, self._fill(selected, state.assigned[0]), self._root)
        return PruningState(selected, self._drawn(forest, key, 2 * plan)[None]), forest

    def _fill(self, selected: NDArray[np.bool_], assigned: NDArray[np.bool_]) -> Chart:
        keep_spans(self._spans, selected, assigned, self._grammar.words, self._kept)
        return fill_chart(self._grammar, self._kept)

    def _drawn(self, forest: Forest, key: int, draw: int) -> NDArray[np.bool_]:
        """Which spans are constituents in a drawn derivation."""
        start, end = spans_of(forest, forest.derivation(SentenceKey(key, self._number), draw))
        covered = np.zeros(len(self._kept), np.bool_)
        for i, j in zip(start.tolist(), end.tolist(), strict=True):
            covered[cell_of(i, j)] = True
        values: NDArray[np.bool_] = covered[[cell_of(int(i), int(j)) for i, j in self._spans]]
        return values


def spans_of(forest: Forest, edges: NDArray[np.int64]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """First words, and ends, of what these edges derive, int32[edges] each."""
    items = forest.items.item[: forest.items.used[0]]
    of = np.searchsorted(items["first"], edges, "right") - 1
    return items["start"][of], items["end"][of]
