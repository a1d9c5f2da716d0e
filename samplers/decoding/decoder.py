"""Decoder: the best derivations of sentences under a weighted grammar.

The chart is filled with X over spans up to the limit, then S → X and S → S X left to right, then the goal. From each
start position, a depth-first search of the trie over words and filled cells finds all source sides that match
[Hopkins & Langmead 2010].
"""

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit, njit_inline
from hierogram.samplers.decoding.chart import (
    GLUE_NEXT,
    GLUE_START,
    GOAL,
    NONE,
    DecodingChart,
    DecodingTask,
    InputSentence,
    Pool,
    SearchLimits,
    make_chart,
    s_cell,
    x_cell,
)
from hierogram.samplers.decoding.cubes import add_cube, begin_chart, discard_cubes, fill_cell, lm_word, rule_score
from hierogram.samplers.decoding.grammar import (
    LM,
    LN_10,
    PackedGrammar,
    WeightedGrammar,
    gap_child,
    no_model,
    weigh,
    word_child,
)
from hierogram.samplers.decoding.kbest import Outputs, best_entries, write_out
from hierogram.samplers.language_models.model import EMPTY, LanguageModel, score

_MIN_ITEMS, _MIN_WORDS = 1 << 12, 30
"""Numbers of items and of words for which every chart has room, so that charts can be reused."""
MAX_SPAN = 20
"""Maximum number of words that a grammar rule may span, unless a caller sets another limit."""
DEFAULT_POPS = 200
"""Default beam size: maximum number of candidates kept per cell."""
_ROOT = 0
_UNVISITED = -2
"""Value of `gap` in a stack frame whose node has not been visited yet."""


@njit_inline
def _push_frame(chart, depth, node, position, arity):
    frame = chart.stack[depth]
    frame.node, frame.position, frame.arity, frame.gap = node, position, arity, _UNVISITED


@njit
def _match_from(task, chart, node, position, arity, end):
    """Add cubes for all source sides below a trie node that match words from `position` up to `end`.

    The path to the node matches words before `position`. It has `arity` nonterminals, whose cells are `path[:arity]`.
    Cells of X that begin at `position` or later must be filled. Returns False if a pool is full.
    """
    grammar = task.grammar
    words = task.sentence.words
    depth = 0
    _push_frame(chart, 0, node, position, arity)
    while depth >= 0:
        frame = chart.stack[depth]
        position, arity = np.int64(frame.position), np.int64(frame.arity)
        if frame.gap == _UNVISITED:
            first, last = np.int64(grammar.rule_first[frame.node]), np.int64(grammar.rule_first[frame.node + 1])
            if first < last and not add_cube(chart, position, 0.0, first, last - first, arity):
                return False
            frame.gap = position
            if position < end:
                child = word_child(grammar, frame.node, words[position])
                if child > 0:
                    depth += 1
                    _push_frame(chart, depth, child, position + 1, arity)
            continue
        child = gap_child(grammar, frame.node)
        frame.gap += 1
        if child < 0 or frame.gap > end:
            depth -= 1
            continue
        cell = x_cell(task, position, np.int64(frame.gap))
        if chart.cells[cell, 1] > chart.cells[cell, 0]:
            chart.path[arity] = cell
            depth += 1
            _push_frame(chart, depth, child, frame.gap, arity + 1)
    return True


@njit
def _estimate_extra_rule(task, rule):
    """Return the estimated score of an extra rule, like `WeightedGrammar.estimate` of a grammar rule."""
    sentence, model = task.sentence, task.model
    total = rule_score(task, rule)
    if model.order > 0:
        state = np.int32(EMPTY)
        extra = rule - len(task.weighed.score)
        for k in range(sentence.target_start[extra], sentence.target_start[extra + 1]):
            log10, state = score(model, state, lm_word(task, sentence.target[k]))
            total += task.weighed.weights[LM] * LN_10 * log10
    return total


@njit
def _fill_start(task, chart, start):
    """Fill X over the spans of up to `limits.span` words from `start`. Returns False if a pool is full."""
    words, extra_first = task.sentence.words, task.sentence.extra_first
    end = min(len(words), start + task.limits.span)
    discard_cubes(chart)
    # Add the last extra rule first, because lists of cubes begin with the cube that was added last.
    for extra in range(extra_first[start + 1] - 1, extra_first[start] - 1, -1):
        rule = np.int64(len(task.weighed.score) + extra)
        if not add_cube(chart, start + 1, _estimate_extra_rule(task, rule), rule, np.int64(0), np.int64(0)):
            return False
    first = word_child(task.grammar, _ROOT, words[start])
    if first > 0 and not _match_from(task, chart, first, start + 1, 0, end):
        return False
    child = gap_child(task.grammar, _ROOT)
    for middle in range(start + 1, end + 1):
        cell = x_cell(task, start, middle)
        if not fill_cell(task, chart, cell, middle):
            return False
        if child > 0 and chart.cells[cell, 1] > chart.cells[cell, 0]:
            chart.path[0] = cell
            if not _match_from(task, chart, child, middle, 1, end):
                return False
    return True


@njit
def _fill_s(task, chart, end):
    discard_cubes(chart)
    for start in range(end - 1, max(0, end - task.limits.span) - 1, -1):
        cell = x_cell(task, start, end)
        if chart.cells[cell, 1] == chart.cells[cell, 0]:
            continue
        rule, arity = np.int64(GLUE_NEXT if start > 0 else GLUE_START), np.int64(2 if start > 0 else 1)
        chart.path[0] = s_cell(task, start)
        chart.path[arity - 1] = cell
        if not add_cube(chart, end, rule_score(task, rule), rule, np.int64(0), arity):
            return False
    return fill_cell(task, chart, s_cell(task, end), end)


@njit
def _fill(task, chart):
    """Fill the chart of a nonempty sentence. Returns the goal item, or `NONE` if a pool is full."""
    n = len(task.sentence.words)
    begin_chart(task, chart)
    for start in range(n - 1, -1, -1):
        if not _fill_start(task, chart, start):
            return np.int64(NONE)
    for end in range(1, n + 1):
        if not _fill_s(task, chart, end):
            return np.int64(NONE)
    discard_cubes(chart)
    chart.path[0] = s_cell(task, n)
    added = add_cube(chart, n + 1, 0.0, np.int64(GOAL), np.int64(0), np.int64(1))
    if not added or not fill_cell(task, chart, s_cell(task, n + 1), n + 1):
        return np.int64(NONE)
    return np.int64(chart.used[Pool.ITEMS] - 1)


class SentenceDecoder:
    """Decoder with a grammar, its weights and a language model. Thread-safe."""

    def __init__(
        self,
        grammar: PackedGrammar,
        weights: NDArray[np.float64],
        lm_words: NDArray[np.int32],
        language_model: LanguageModel | None,
        limits: SearchLimits,
        charts: list[DecodingChart] | None = None,
    ) -> None:
        """Weigh the grammar. `weights` float64[F + 6] are for grammar features, then for `COUNTED_FEATURES`.

        `lm_words` int32[V] are language-model numbers of target words. `charts` are unused charts, which decoders with
        the same language model and limits can share.
        """
        self.grammar = grammar
        self.language_model = no_model() if language_model is None else language_model
        self.limits = limits
        self.weighed: WeightedGrammar = weigh(grammar, weights, self.language_model, lm_words)
        self._unused: list[DecodingChart] = [] if charts is None else charts

    def decode(self, sentence: InputSentence, limit: int = 1, *, distinct: bool = False) -> Outputs:
        """Return up to `limit` derivations of a nonempty sentence, best first, one per text if `distinct`."""
        task = DecodingTask(self.grammar, self.weighed, self.language_model, sentence, self.limits)
        words = len(sentence.words)
        longest = max(words, _MIN_WORDS)
        try:
            chart = self._unused.pop()
        except IndexError:
            chart = make_chart(longest, self.language_model.order, _MIN_ITEMS, self.limits.pops)
        if len(chart.heads) < words + 2:
            chart = make_chart(longest, self.language_model.order, len(chart.items), self.limits.pops)
        while (goal := int(_fill(task, chart))) < 0:
            chart = make_chart(longest, self.language_model.order, 2 * len(chart.items), self.limits.pops)
        lists, entries = best_entries(task, chart, goal, limit, distinct)
        outputs = write_out(task, chart, lists, entries)
        self._unused.append(chart)
        return outputs
