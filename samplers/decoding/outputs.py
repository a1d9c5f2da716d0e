"""What derivations say: target words, the rules that were used and where, the sums of features."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit, njit_inline
from hierogram.samplers.decoding.chart import GLUE_NEXT, NONE, Chart, Task
from hierogram.samplers.decoding.kbest import Lists, next_symbol
from hierogram.samplers.decoding.states import lm_word
from hierogram.samplers.decoding.weighing import GLUE, LM, LM_UNKNOWN, RULES, UNKNOWN_WORDS, WORDS
from hierogram.samplers.language_models.model import UNKNOWN

USE = np.dtype(
    [
        ("rule", np.int32),
        ("cell", np.int32),
        ("parent", np.int32),
        ("slot", np.int32),
        ("first", np.int32),
        ("last", np.int32),
        ("symbol", np.int32),
        ("entry", np.int32),
    ],
    align=True,
)
"""A rule where a derivation uses it: its number as an edge has it; its cell; the use that it stands in (-1: none), and
as which nonterminal, counted from 0; its target words, from the first to before the last; the last two are of the
walk."""


class Outputs(NamedTuple):
    """Derivations written out: `words` int32 and `uses` USE one derivation after the other, in the order of the target;
    `word_start`, `use_start` int64[k+1]; `features` float64[k, F + 6]; `scores` float64[k].
    """

    words: NDArray[np.int32]
    word_start: NDArray[np.int64]
    uses: NDArray[np.void]
    use_start: NDArray[np.int64]
    features: NDArray[np.float64]
    scores: NDArray[np.float64]


@njit
def _count(task, chart, edge, features):
    """Add what an edge counts to a derivation's features."""
    grammar, sentence = task.grammar, task.sentence
    own = grammar.features.shape[1]
    rules = len(grammar.target_start) - 1
    rule = chart.edges[edge].rule
    features[own + LM] += chart.edges[edge].lm
    if rule == GLUE_NEXT:
        features[own + GLUE] += 1
    elif 0 <= rule < rules:
        features[own + RULES] += 1
        for k in range(own):
            features[k] += grammar.features[rule, k]
    elif rule >= rules:
        features[own + UNKNOWN_WORDS] += sentence.passes[rule - rules]


@njit_inline
def _put_word(task, outputs, row, place, word):
    """One word more of a derivation; False where there is no room."""
    if place == len(outputs.words):
        return False
    outputs.words[place] = word
    own = task.grammar.features.shape[1]
    outputs.features[row, own + WORDS] += 1
    if task.model.order > 0 and lm_word(task, word) == UNKNOWN:
        outputs.features[row, own + LM_UNKNOWN] += 1
    return True


@njit
def _write_one(task, chart, lists, entry, row, outputs):
    """Write out a derivation; False where there is no room."""
    place = outputs.word_start[row]
    begin = place
    number = outputs.use_start[row]
    first_use = number
    at = np.int64(NONE)
    slot = 0
    while True:
        # A rule's use begins where an entry is given, and goes on where it is not.
        if entry != NONE:
            if number == len(outputs.uses):
                return False
            edge = lists.entries[entry].edge
            use = outputs.uses[number]
            use.rule, use.cell, use.parent, use.slot = (
                chart.edges[edge].rule,
                chart.items[lists.entries[entry].item].cell,
                at,
                slot,
            )
            use.first, use.symbol, use.entry = place - begin, 0, entry
            _count(task, chart, edge, outputs.features[row])
            at = number - first_use
            number += 1
            entry = np.int64(NONE)
        use = outputs.uses[first_use + at]
        edge = lists.entries[use.entry].edge
        symbol, there = next_symbol(task, np.int64(use.rule), np.int64(use.symbol), chart.edges[edge].arity)
        if there:
            use.symbol += 1
            if symbol >= 0:
                if not _put_word(task, outputs, row, place, symbol):
                    return False
                place += 1
            else:
                slot = -symbol - 1
                entry = np.int64(lists.tails[lists.entries[use.entry].tails + slot])
        else:
            use.last = place - begin
            at = np.int64(use.parent)
            if at == NONE:
                break
    outputs.word_start[row + 1] = place
    outputs.use_start[row + 1] = number
    outputs.scores[row] = lists.entries[outputs.uses[first_use].entry].score
    return True


@njit
def _write(task, chart, lists, found, outputs):
    outputs.features[:, :] = 0
    for row in range(len(found)):
        if not _write_one(task, chart, lists, np.int64(found[row]), row, outputs):
            return np.int64(row)
    return np.int64(len(found))


def write_out(task: Task, chart: Chart, lists: Lists, found: NDArray[np.int32]) -> Outputs:
    """The derivations that are entries `found` of the lists, written out."""
    k = len(found)
    features = task.grammar.features.shape[1] + len(task.weighed.weights)
    size = 8 * k * (len(task.sentence.words) + 4)
    while True:
        outputs = Outputs(
            np.empty(size, np.int32),
            np.zeros(k + 1, np.int64),
            np.zeros(size, USE),
            np.zeros(k + 1, np.int64),
            np.zeros((k, features)),
            np.zeros(k),
        )
        if _write(task, chart, lists, found, outputs) == k:
            words, uses = int(outputs.word_start[-1]), int(outputs.use_start[-1])
            return outputs._replace(words=outputs.words[:words].copy(), uses=outputs.uses[:uses].copy())
        size *= 4
