"""What the language model must know of a partial translation, and joining partial translations by a rule.

An item's words are scored from no context. Its first words are *open*: what stands before changes their probability.
The probabilities of the others are final, and are in its score; those of open words are only promised, in its rank.
Where not all words are open, the state at the end stays, whatever comes before.
"""

import numpy as np

from hierogram.samplers.compiled.jit import njit, njit_inline
from hierogram.samplers.compiled.probing import mask_of
from hierogram.samplers.decoding.chart import GLUE_NEXT, GLUE_START, GOAL
from hierogram.samplers.decoding.weighing import LN_10
from hierogram.samplers.language_models.model import EMPTY, END, home_of, score


@njit_inline
def lm_word(task, word):
    """The language model's number of a target word, one of the grammar's or of the sentence's own."""
    known = len(task.weighed.lm_words)
    if word < known:
        return task.weighed.lm_words[word]
    return task.sentence.lm_words[word - known]


@njit_inline
def _score(task, chart, state, word):
    """What the language model says of a word after a state: asked once as long as nothing else takes its slot.

    A sentence asks the same again and again, and the model's tables are much larger than the processor's caches.
    """
    slot = np.int64(home_of(state, word, mask_of(chart.memo)))
    there = chart.memo[slot]
    if there.state != state or there.word != word:
        log10, following = score(task.model, state, word)
        there.state, there.word, there.log10, there.next = state, word, log10, following
    return there.log10, there.next


@njit_inline
def _word(task, chart, word, joined):
    """One word more: `joined` is (open words, state, whether they are closed, log10 final, log10 promised)."""
    size, state, closed, final, promised = joined
    model = task.model
    log10, state = _score(task, chart, state, word)
    if closed:
        return size, state, closed, final + log10, promised
    chart.front[size] = word
    there = model.states[state]
    closed = there.length <= size or there.open == 0
    return size + 1, state, closed, final, promised + log10


@njit_inline
def _item(task, chart, item, joined):
    """The words of an item more: the open ones are scored again, the others stay as they are."""
    there = chart.items[item]
    size, state, closed, final, promised = joined
    if size == 0 and not closed:
        for k in range(there.open):
            chart.front[k] = chart.fronts[item, k]
        return np.int64(there.open), np.int32(there.state), there.closed != 0, final, there.promised
    for k in range(there.open):
        joined = _word(task, chart, chart.fronts[item, k], joined)
    size, state, closed, final, promised = joined
    if there.closed:
        state = there.state
        closed = True
    return size, state, closed, final, promised


@njit_inline
def _side(task, chart, rule, tails):
    """The target side of a rule of the grammar or of the sentence, over items."""
    joined = (np.int64(0), np.int32(EMPTY), False, 0.0, 0.0)
    grammar, sentence = task.grammar, task.sentence
    rules = len(grammar.target_start) - 1
    if rule >= rules:
        extra = rule - rules
        for k in range(sentence.target_start[extra], sentence.target_start[extra + 1]):
            joined = _word(task, chart, lm_word(task, sentence.target[k]), joined)
        return joined
    for k in range(grammar.target_start[rule], grammar.target_start[rule + 1]):
        symbol = grammar.target[k]
        if symbol < 0:
            joined = _item(task, chart, chart.tails[tails - symbol - 1], joined)
        else:
            joined = _word(task, chart, lm_word(task, symbol), joined)
    return joined


@njit
def join(task, chart, rule, tails):
    """The state of what a rule makes of items, `chart.tails[tails:]`.

    (number of open words, which stand in `front`; state; whether others follow them; natural log probability of the
    words that are closed now; log10 probability of the open ones, as promised).
    """
    no_words = (np.int64(0), np.int32(EMPTY), False, 0.0, 0.0)
    model = task.model
    if model.order == 0:
        return no_words
    if rule < 0:
        begun = np.int32(model.begin) if rule == GLUE_START else np.int32(chart.items[chart.tails[tails]].state)
        joined = (np.int64(0), begun, True, 0.0, 0.0)
        if rule == GOAL:
            log10, _ = _score(task, chart, begun, np.int32(END))
            # Nothing comes after it.
            joined = (np.int64(0), np.int32(EMPTY), True, np.float64(log10), 0.0)
        else:
            joined = _item(task, chart, chart.tails[tails + (1 if rule == GLUE_NEXT else 0)], joined)
    else:
        joined = _side(task, chart, rule, tails)
    size, state, closed, final, promised = joined
    return size, state, closed, final * LN_10, promised
