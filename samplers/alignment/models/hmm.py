"""BHMM: HMM with special jumps to and from the empty word [SA16 §2] (docs/model.md, section 5).

After each sweep, joint moves redraw the links of all tokens of a word that are linked to one of two conditioning words,
since a single token rarely moves against the other tokens. The first sweeps use flatter priors, so that the chain
forgets its initial links.
"""

import math

import numpy as np

from hierogram.samplers.alignment.chain import (
    UNLINKED,
    AlignmentChain,
    conditioning_word,
    draw_index,
    group_tokens,
    jump_event,
    jump_share,
)
from hierogram.samplers.alignment.counts import (
    SHIFT,
    find_pair,
    free_if_unused,
    has_room,
    lexical,
    link_pair,
    pair_key,
    relink_pair,
    unlink_pair,
)
from hierogram.samplers.alignment.marginals import add_conditional, decode, load_sums, store_sums
from hierogram.samplers.alignment.model1 import model1_links
from hierogram.samplers.alignment.models.sampler import ModelFunctions
from hierogram.samplers.alignment.options import AlignerOptions
from hierogram.samplers.compiled.jit import njit, njit_inline
from hierogram.samplers.compiled.streams import advance, stream, uniform

START = -2
"""Value of the previous link of the first word, and of the next link of the last word."""
MOVES = 3
"""Number of joint moves after a sweep of each emitted word with several tokens."""
TILTS = np.exp(np.array([-4.0, -2.0, 0.0, 2.0, 4.0]))
"""Factors of the old word's probability in proposals. Reverse moves use their inverses."""
FLAT_LEXICAL, TOKENS_PER_FLAT_JUMP = 0.003, 8
"""At the start of the warm-up, β is at least the first, and α at least emitted tokens / the second."""
_HELD_SHARE = 1 / 16
"""Share of the warm-up at its start in which β and α do not fall yet."""


@njit_inline
def _event(jumps, start, stop):
    if stop == UNLINKED:
        return len(jumps) - 3
    if start == UNLINKED:
        return len(jumps) - 2
    return jump_event(jumps, -1 if start == START else start, stop)


@njit_inline
def count_jumps(before, i, after, change, jumps):
    """Add `change` to the counts of the jumps to and from link i. `after` START has no second jump."""
    jumps[_event(jumps, before, i)] += change
    if after != START:
        jumps[_event(jumps, i, after)] += change


@njit_inline
def weigh_jumps(i, before, after, jumps, symmetric):
    """Return the factor of link i for uncounted jumps to and from it, linear [SA16 eqs. 5, 6]."""
    inward = _event(jumps, before, i)
    weight = (jumps[inward] + symmetric) * jump_share(jumps, inward)
    if after != START:
        outward = _event(jumps, i, after)
        weight *= jumps[outward] + symmetric + (1.0 if outward == inward else 0.0)
        weight *= jump_share(jumps, outward)
    return weight


@njit
def _sweep_hmm(first, bitext, chain, key, plan, scratch, marginals):
    settings = chain.settings[0]
    links, jumps = chain.links, chain.jumps
    empty_word = np.int64(len(chain.totals) - 1)
    for pair in range(first, len(bitext.emitted_offset) - 1):
        start, stop = bitext.emitted_offset[pair], bitext.emitted_offset[pair + 1]
        e_start = bitext.conditioning_offset[pair]
        length = bitext.conditioning_offset[pair + 1] - e_start
        if not has_room(chain.pairs, stop - start):
            return pair
        state = stream(key, pair, plan.sweep)
        if plan.sampled:
            load_sums(bitext, pair, marginals)
        for g in range(start, stop):
            f = bitext.emitted[g]
            old = links[g]
            before = links[g - 1] if g > start else START
            after = links[g + 1] if g + 1 < stop else START
            count_jumps(before, old, after, -1, jumps)
            old_word = conditioning_word(bitext, e_start, old, empty_word)
            row = unlink_pair(chain.pairs, chain.totals, old_word, f)

            total = 0.0
            for i in range(UNLINKED, length):
                word = conditioning_word(bitext, e_start, i, empty_word)
                weight = weigh_jumps(i, before, after, jumps, settings["jump"])
                total += weight * lexical(chain.pairs, chain.totals, word, f, settings["lexical"])
                scratch.weight[i + 1] = total
            state = advance(state)
            new = draw_index(scratch.weight, length + 1, state) - 1

            new_word = conditioning_word(bitext, e_start, new, empty_word)
            relink_pair(chain.pairs, chain.totals, row, old_word, new_word, f)
            links[g] = new
            count_jumps(before, new, after, 1, jumps)
            if plan.sampled:
                add_conditional(marginals, (g - start) * (length + 1), scratch.weight, length + 1)
        if plan.sampled:
            store_sums(bitext, pair, marginals.samples[0] + 1, marginals)
    return len(bitext.emitted_offset) - 1


@njit
def _count_hmm(first, bitext, chain):
    jumps = chain.jumps
    empty_word = np.int64(len(chain.totals) - 1)
    for pair in range(first, len(bitext.emitted_offset) - 1):
        start, stop = bitext.emitted_offset[pair], bitext.emitted_offset[pair + 1]
        if not has_room(chain.pairs, stop - start):
            return pair
        before = START
        for g in range(start, stop):
            i = chain.links[g]
            word = conditioning_word(bitext, bitext.conditioning_offset[pair], i, empty_word)
            link_pair(chain.pairs, chain.totals, word, bitext.emitted[g])
            jumps[_event(jumps, before, i)] += 1
            before = i
    return len(bitext.emitted_offset) - 1


@njit
def _count_options(bitext, chain, g, word):
    """Count `word` among the 2n options of a token in a joint move: n words, n times the empty word."""
    pair = chain.tokens.pair[g]
    start, stop = bitext.conditioning_offset[pair], bitext.conditioning_offset[pair + 1]
    if word == len(chain.totals) - 1:
        return stop - start
    count = 0
    for k in range(start, stop):
        count += bitext.conditioning[k] == word
    return count


@njit_inline
def _linked_word(bitext, chain, g):
    e_start = bitext.conditioning_offset[chain.tokens.pair[g]]
    return conditioning_word(bitext, e_start, chain.links[g], np.int64(len(chain.totals) - 1))


@njit
def _moves_along(bitext, chain, g, old_word, new_word):
    """Check if token g is linked to one of the two words and could be linked to the other one."""
    current = _linked_word(bitext, chain, g)
    if current == old_word:
        return _count_options(bitext, chain, g, new_word) > 0
    return current == new_word and _count_options(bitext, chain, g, old_word) > 0


@njit
def _selection_weight(bitext, chain, f, old_word, new_word):
    """Return the unnormalized probability that a joint move of word f draws these two words, linear."""
    tokens, total = chain.tokens, 0.0
    for k in range(tokens.offset[f], tokens.offset[f + 1]):
        g = tokens.position[k]
        if _moves_along(bitext, chain, g, old_word, new_word):
            pair = tokens.pair[g]
            options = 2 * (bitext.conditioning_offset[pair + 1] - bitext.conditioning_offset[pair])
            other = new_word if _linked_word(bitext, chain, g) == old_word else old_word
            total += _count_options(bitext, chain, g, other) / options
    return total


@njit
def _relink(bitext, chain, f, old_word, new_word, tilt, is_sampled, state, scratch):
    """Relink the moving tokens of word f one by one, given all links of tokens that do not move later.

    A token moves if `_moves_along`. New links are drawn with the factor `tilt` on `old_word` if `is_sampled`, otherwise
    read from `saved_links`. `saved_links` receives the previous links. Returns three natural logs and the stream state:
    the probability of drawing the new links, the probability of the emitted words given the new links, and the ratio of
    the probabilities of jumps with the new and the previous links.
    """
    settings, jumps, tokens = chain.settings[0], chain.jumps, chain.tokens
    empty_word = np.int64(len(chain.totals) - 1)
    symmetric = settings["jump"]
    for k in range(tokens.offset[f], tokens.offset[f + 1]):
        g = tokens.position[k]
        if _moves_along(bitext, chain, g, old_word, new_word):
            current = _linked_word(bitext, chain, g)
            unlink_pair(chain.pairs, chain.totals, current, f)
    log_proposal = log_words = log_jump_ratio = 0.0
    for k in range(tokens.offset[f], tokens.offset[f + 1]):
        g = tokens.position[k]
        if not _moves_along(bitext, chain, g, old_word, new_word):
            continue
        pair, old = tokens.pair[g], chain.links[g]
        e_start = bitext.conditioning_offset[pair]
        length = bitext.conditioning_offset[pair + 1] - e_start
        before = chain.links[g - 1] if g > bitext.emitted_offset[pair] else START
        after = chain.links[g + 1] if g + 1 < bitext.emitted_offset[pair + 1] else START
        count_jumps(before, old, after, -1, jumps)
        old_probability = lexical(chain.pairs, chain.totals, old_word, f, settings["lexical"])
        new_probability = lexical(chain.pairs, chain.totals, new_word, f, settings["lexical"])
        total = 0.0
        for i in range(UNLINKED, length):
            word = conditioning_word(bitext, e_start, i, empty_word)
            if (word == old_word) | (word == new_word):
                weight = old_probability * tilt if word == old_word else new_probability
                total += weight * weigh_jumps(i, before, after, jumps, symmetric)
            scratch.weight[i + 1] = total
        new = np.int64(tokens.saved_links[g])
        if is_sampled:
            state = advance(state)
            new = draw_index(scratch.weight, length + 1, state) - 1
        tokens.saved_links[g] = old
        word = conditioning_word(bitext, e_start, new, empty_word)
        jump_weight = weigh_jumps(new, before, after, jumps, symmetric)
        probability = old_probability if word == old_word else new_probability
        tilted = old_probability * tilt if word == old_word else new_probability
        log_proposal += math.log(tilted * jump_weight / total)
        log_words += math.log(probability)
        log_jump_ratio += math.log(jump_weight / weigh_jumps(old, before, after, jumps, symmetric))
        link_pair(chain.pairs, chain.totals, word, f)
        chain.links[g] = new
        count_jumps(before, new, after, 1, jumps)
    return log_proposal, log_words, log_jump_ratio, state


@njit
def _move_word(bitext, chain, f, state, scratch):
    tokens = chain.tokens
    empty_word = np.int64(len(chain.totals) - 1)
    start, number = tokens.offset[f], tokens.offset[f + 1] - tokens.offset[f]
    state = advance(state)
    # Draw a token. The first conditioning word is the word to which it is linked. The second is one of its options.
    g = tokens.position[start + np.int64(uniform(state) * number)]
    e_start = bitext.conditioning_offset[tokens.pair[g]]
    length = bitext.conditioning_offset[tokens.pair[g] + 1] - e_start
    state = advance(state)
    option = np.int64(uniform(state) * 2 * length)
    state = advance(state)
    tilt = TILTS[np.int64(uniform(state) * len(TILTS))]
    old_word = _linked_word(bitext, chain, g)
    new_word = conditioning_word(bitext, e_start, option if option < length else UNLINKED, empty_word)
    if old_word == new_word:
        return state
    log_ratio = -math.log(_selection_weight(bitext, chain, f, old_word, new_word))
    forward, words, jump_ratio, state = _relink(bitext, chain, f, old_word, new_word, tilt, True, state, scratch)
    log_ratio += math.log(_selection_weight(bitext, chain, f, old_word, new_word)) + words + jump_ratio
    # The reverse move applies the tilt to `new_word`, which is equivalent to its inverse on `old_word`.
    back, words, _, state = _relink(bitext, chain, f, old_word, new_word, 1.0 / tilt, False, state, scratch)
    log_ratio += back - forward - words
    state = advance(state)
    if uniform(state) < math.exp(min(log_ratio, 0.0)):
        _relink(bitext, chain, f, old_word, new_word, tilt, False, state, scratch)
    for word in (old_word, new_word):
        row = find_pair(chain.pairs.rows, chain.pairs.registers[SHIFT], pair_key(word, f))
        if chain.pairs.rows[row]["key"] == pair_key(word, f):
            free_if_unused(chain.pairs, row)
    return state


@njit
def _move_words(first, bitext, chain, key, plan, scratch):
    """Propose `MOVES` joint moves of each repeated emitted word (`ModelFunctions.joint_moves`)."""
    tokens = chain.tokens
    words = len(tokens.offset) - 1
    for f in range(first, words):
        # A move adds up to two rows: f with each of the two conditioning words.
        if not has_room(chain.pairs, 2 * MOVES):
            return f
        state = stream(key, len(bitext.emitted_offset) - 1 + f, plan.sweep)
        if tokens.offset[f + 1] - tokens.offset[f] > 1:
            for _ in range(MOVES):
                state = _move_word(bitext, chain, f, state, scratch)
    return words


def strengths_at(sweep: int, options: AlignerOptions, emitted_tokens: int) -> tuple[float, float]:
    """Return β and α for a sweep, numbered from 1. They fall geometrically during the warm-up."""
    falling = options.warming * (1.0 - _HELD_SHARE)
    flatness = min(1.0, (options.warming + 1 - sweep) / falling) if sweep <= options.warming else 0.0
    lexical, jump = options.lexical, options.jump
    flat = max(lexical, FLAT_LEXICAL), max(jump, emitted_tokens / TOKENS_PER_FLAT_JUMP)
    return lexical * (flat[0] / lexical) ** flatness, jump * (flat[1] / jump) ** flatness


def _set_strengths(chain: AlignmentChain, options: AlignerOptions, sweep: int) -> None:
    settings = chain.settings[0]
    lexical, jump = strengths_at(sweep, options, len(chain.links))
    if lexical != settings["lexical"]:
        chain.totals["prior"] += (lexical - settings["lexical"]) * settings["emitted_words"]
    settings["lexical"], settings["jump"] = lexical, jump


FUNCTIONS = ModelFunctions(
    initial_links=lambda direction, options, seed: model1_links(
        direction.bitext, len(direction.conditioning.vocabulary)
    ),
    count_links=lambda first, bitext, chain, scratch: _count_hmm(first, bitext, chain),
    sweep=_sweep_hmm,
    joint_moves=_move_words,
    decode=decode,
    add_arrays=lambda chain, direction: chain._replace(
        tokens=group_tokens(direction.bitext, len(direction.emitted.vocabulary))
    ),
    set_strengths=_set_strengths,
)
"""BHMM. The chain starts from the links of IBM Model 1 [SA16 §5]."""
