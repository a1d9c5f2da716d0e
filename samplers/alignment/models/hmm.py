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
    group_tokens,
    jump_event,
    jump_share,
    pick,
)
from hierogram.samplers.alignment.counts import (
    SHIFT,
    find_pair,
    free_if_unused,
    has_room,
    lexical,
    link_pair,
    pair_key,
    unlink_pair,
)
from hierogram.samplers.alignment.marginals import add_conditional, decode, load_sums, store_sums
from hierogram.samplers.alignment.model1 import model1_links
from hierogram.samplers.alignment.models.sampler import Steps
from hierogram.samplers.alignment.options import AlignerOptions
from hierogram.samplers.compiled.jit import njit, njit_inline
from hierogram.samplers.compiled.streams import advance, stream, uniform

START = -2
"""Value of the previous link of the first word, and of the next link of the last word."""
MOVES = 3
"""Number of joint moves after a sweep, per emitted word with several tokens."""
TILTS = np.exp(np.array([-4.0, -2.0, 0.0, 2.0, 4.0]))
"""Factors of the old word's probability in proposals, with their inverses, which reverse moves use."""
FLAT_LEXICAL, TOKENS_PER_FLAT_JUMP = 0.003, 8
"""The warm-up starts with β >= `FLAT_LEXICAL` and α >= emitted tokens / `TOKENS_PER_FLAT_JUMP`."""
_HELD_SHARE = 1 / 16
"""Share of the warm-up during which β and α keep their first values."""


@njit_inline
def _event(jumps, start, stop):
    if stop == UNLINKED:
        return len(jumps) - 3
    if start == UNLINKED:
        return len(jumps) - 2
    return jump_event(jumps, -1 if start == START else start, stop)


@njit_inline
def count_jumps(before, i, after, change, jumps):
    """Add `change` to the counts of the jump to i and, unless `after` is `START`, the jump from i."""
    jumps[_event(jumps, before, i)] += change
    if after != START:
        jumps[_event(jumps, i, after)] += change


@njit_inline
def weigh_jumps(i, before, after, jumps, symmetric):
    """Return the factor of a link to position i for the jumps to and from it, linear [SA16 eqs. 5, 6]."""
    inward = _event(jumps, before, i)
    weight = (jumps[inward] + symmetric) * jump_share(jumps, inward)
    if after != START:
        outward = _event(jumps, i, after)
        weight *= jumps[outward] + symmetric + (1.0 if outward == inward else 0.0)
        weight *= jump_share(jumps, outward)
    return weight


@njit
def _sweep_hmm(first, sides, chain, key, plan, scratch, marginals):
    settings = chain.settings[0]
    links, jumps = chain.links, chain.jumps
    for pair in range(first, len(sides.emitted_offset) - 1):
        start, stop = sides.emitted_offset[pair], sides.emitted_offset[pair + 1]
        e_start = sides.conditioning_offset[pair]
        length = sides.conditioning_offset[pair + 1] - e_start
        if not has_room(chain.pairs, stop - start):
            return pair
        state = stream(key, pair, plan.sweep)
        if plan.sampled:
            load_sums(sides, pair, marginals)
        for g in range(start, stop):
            f = sides.emitted[g]
            old = links[g]
            before = links[g - 1] if g > start else START
            after = links[g + 1] if g + 1 < stop else START
            count_jumps(before, old, after, -1, jumps)
            old_word = conditioning_word(sides, e_start, old, chain.conditioning)
            row = unlink_pair(chain.pairs, chain.conditioning, old_word, pair_key(old_word, f))

            total = 0.0
            for i in range(UNLINKED, length):
                word = conditioning_word(sides, e_start, i, chain.conditioning)
                weight = weigh_jumps(i, before, after, jumps, settings["jump"])
                total += weight * lexical(chain.pairs, chain.conditioning, word, pair_key(word, f), settings["lexical"])
                scratch.weight[i + 1] = total
            state = advance(state)
            new = pick(scratch.weight, length + 1, state) - 1

            new_word = conditioning_word(sides, e_start, new, chain.conditioning)
            if new_word == old_word:
                chain.pairs.rows[row]["count"] += 1
                chain.conditioning[old_word]["links"] += 1
            else:
                free_if_unused(chain.pairs, row)
                link_pair(chain.pairs, chain.conditioning, new_word, pair_key(new_word, f))
            links[g] = new
            count_jumps(before, new, after, 1, jumps)
            if plan.sampled:
                add_conditional(marginals, (g - start) * (length + 1), scratch.weight, length + 1)
        if plan.sampled:
            store_sums(sides, pair, marginals.samples[0] + 1, marginals)
    return len(sides.emitted_offset) - 1


@njit
def _count_hmm(first, sides, chain):
    jumps = chain.jumps
    for pair in range(first, len(sides.emitted_offset) - 1):
        start, stop = sides.emitted_offset[pair], sides.emitted_offset[pair + 1]
        if not has_room(chain.pairs, stop - start):
            return pair
        before = START
        for g in range(start, stop):
            i = chain.links[g]
            word = conditioning_word(sides, sides.conditioning_offset[pair], i, chain.conditioning)
            link_pair(chain.pairs, chain.conditioning, word, pair_key(word, sides.emitted[g]))
            jumps[_event(jumps, before, i)] += 1
            before = i
    return len(sides.emitted_offset) - 1


@njit
def _count_options(sides, chain, g, word):
    """Count `word` among the options of a token in a joint move. Half of them are the empty word."""
    pair = chain.tokens.pair[g]
    start, stop = sides.conditioning_offset[pair], sides.conditioning_offset[pair + 1]
    if word == len(chain.conditioning) - 1:
        return stop - start
    count = 0
    for k in range(start, stop):
        count += sides.conditioning[k] == word
    return count


@njit_inline
def _linked_word(sides, chain, g):
    e_start = sides.conditioning_offset[chain.tokens.pair[g]]
    return conditioning_word(sides, e_start, chain.links[g], chain.conditioning)


@njit
def _moves_along(sides, chain, g, old_word, new_word):
    current = _linked_word(sides, chain, g)
    if current == old_word:
        return _count_options(sides, chain, g, new_word) > 0
    return current == new_word and _count_options(sides, chain, g, old_word) > 0


@njit
def _selection_weight(sides, chain, f, old_word, new_word):
    """Return the unnormalized probability that a joint move of word f draws these two words, linear."""
    tokens, total = chain.tokens, 0.0
    for k in range(tokens.offset[f], tokens.offset[f + 1]):
        g = tokens.position[k]
        if _moves_along(sides, chain, g, old_word, new_word):
            pair = tokens.pair[g]
            options = 2 * (sides.conditioning_offset[pair + 1] - sides.conditioning_offset[pair])
            other = new_word if _linked_word(sides, chain, g) == old_word else old_word
            total += _count_options(sides, chain, g, other) / options
    return total


@njit
def _relink(sides, chain, f, old_word, new_word, tilt, is_sampled, state, scratch):
    """Relink the moving tokens one by one, each given all links except the links of later tokens.

    New links are drawn with the factor `tilt` on `old_word` if `is_sampled`, otherwise read from `saved_links`.
    `saved_links` receives the previous links. Returns the log probability of drawing the new links, the log
    probability of the emitted words, the change of the log probability of jumps, and the stream state.
    """
    settings, jumps, tokens = chain.settings[0], chain.jumps, chain.tokens
    symmetric = settings["jump"]
    for k in range(tokens.offset[f], tokens.offset[f + 1]):
        g = tokens.position[k]
        if _moves_along(sides, chain, g, old_word, new_word):
            current = _linked_word(sides, chain, g)
            unlink_pair(chain.pairs, chain.conditioning, current, pair_key(current, f))
    proposed = words = moved = 0.0
    for k in range(tokens.offset[f], tokens.offset[f + 1]):
        g = tokens.position[k]
        if not _moves_along(sides, chain, g, old_word, new_word):
            continue
        pair, old = tokens.pair[g], chain.links[g]
        e_start = sides.conditioning_offset[pair]
        length = sides.conditioning_offset[pair + 1] - e_start
        before = chain.links[g - 1] if g > sides.emitted_offset[pair] else START
        after = chain.links[g + 1] if g + 1 < sides.emitted_offset[pair + 1] else START
        count_jumps(before, old, after, -1, jumps)
        old_probability = lexical(chain.pairs, chain.conditioning, old_word, pair_key(old_word, f), settings["lexical"])
        new_probability = lexical(chain.pairs, chain.conditioning, new_word, pair_key(new_word, f), settings["lexical"])
        total = 0.0
        for i in range(UNLINKED, length):
            word = conditioning_word(sides, e_start, i, chain.conditioning)
            if (word == old_word) | (word == new_word):
                weight = old_probability * tilt if word == old_word else new_probability
                total += weight * weigh_jumps(i, before, after, jumps, symmetric)
            scratch.weight[i + 1] = total
        new = np.int64(tokens.saved_links[g])
        if is_sampled:
            state = advance(state)
            new = pick(scratch.weight, length + 1, state) - 1
        tokens.saved_links[g] = old
        word = conditioning_word(sides, e_start, new, chain.conditioning)
        jump_weight = weigh_jumps(new, before, after, jumps, symmetric)
        proposed += math.log((old_probability * tilt if word == old_word else new_probability) * jump_weight / total)
        words += math.log(old_probability if word == old_word else new_probability)
        moved += math.log(jump_weight / weigh_jumps(old, before, after, jumps, symmetric))
        link_pair(chain.pairs, chain.conditioning, word, pair_key(word, f))
        chain.links[g] = new
        count_jumps(before, new, after, 1, jumps)
    return proposed, words, moved, state


@njit
def _move_word(sides, chain, f, state, scratch):
    tokens = chain.tokens
    start, number = tokens.offset[f], tokens.offset[f + 1] - tokens.offset[f]
    state = advance(state)
    # Draw a token. It is linked to the first conditioning word, and the second is drawn from the options of its pair.
    g = tokens.position[start + np.int64(uniform(state) * number)]
    e_start = sides.conditioning_offset[tokens.pair[g]]
    length = sides.conditioning_offset[tokens.pair[g] + 1] - e_start
    state = advance(state)
    option = np.int64(uniform(state) * 2 * length)
    state = advance(state)
    tilt = TILTS[np.int64(uniform(state) * len(TILTS))]
    old_word = _linked_word(sides, chain, g)
    new_word = conditioning_word(sides, e_start, option if option < length else UNLINKED, chain.conditioning)
    if old_word == new_word:
        return state
    ratio = -math.log(_selection_weight(sides, chain, f, old_word, new_word))
    forward, words, moved, state = _relink(sides, chain, f, old_word, new_word, tilt, True, state, scratch)
    ratio += math.log(_selection_weight(sides, chain, f, old_word, new_word)) + words + moved
    # The tilt favors `old_word`. The reverse move uses the inverse tilt, which favors `new_word` instead.
    back, words, _, state = _relink(sides, chain, f, old_word, new_word, 1.0 / tilt, False, state, scratch)
    ratio += back - forward - words
    state = advance(state)
    if uniform(state) < math.exp(min(ratio, 0.0)):
        _relink(sides, chain, f, old_word, new_word, tilt, False, state, scratch)
    for word in (old_word, new_word):
        row = find_pair(chain.pairs.rows, chain.pairs.registers[SHIFT], pair_key(word, f))
        if chain.pairs.rows[row]["key"] == pair_key(word, f):
            free_if_unused(chain.pairs, row)
    return state


@njit
def _move_words(first, sides, chain, key, plan, scratch):
    """Implement `Steps.move`: make `MOVES` joint moves of each emitted word with several tokens."""
    tokens = chain.tokens
    words = len(tokens.offset) - 1
    for f in range(first, words):
        if not has_room(chain.pairs, 2 * MOVES):
            return f
        state = stream(key, len(sides.emitted_offset) - 1 + f, plan.sweep)
        if tokens.offset[f + 1] - tokens.offset[f] > 1:
            for _ in range(MOVES):
                state = _move_word(sides, chain, f, state, scratch)
    return words


def strengths_at(sweep: int, options: AlignerOptions, emitted_tokens: int) -> tuple[float, float]:
    """Return β and α for a sweep. They fall geometrically to their final values in the warm-up."""
    falling = options.warming * (1.0 - _HELD_SHARE)
    part = min(1.0, (options.warming + 1 - sweep) / falling) if sweep <= options.warming else 0.0
    lexical, jump = options.lexical, options.jump
    flat = max(lexical, FLAT_LEXICAL), max(jump, emitted_tokens / TOKENS_PER_FLAT_JUMP)
    return lexical * (flat[0] / lexical) ** part, jump * (flat[1] / jump) ** part


def _warm_up(chain: AlignmentChain, options: AlignerOptions, sweep: int) -> None:
    settings = chain.settings[0]
    lexical, jump = strengths_at(sweep, options, len(chain.links))
    if lexical != settings["lexical"]:
        chain.conditioning["prior"] += (lexical - settings["lexical"]) * settings["emitted_words"]
    settings["lexical"], settings["jump"] = lexical, jump


STEPS = Steps(
    start=lambda direction, options, seed: model1_links(direction.sides, len(direction.conditioning.vocabulary)),
    count=lambda first, sides, chain, scratch: _count_hmm(first, sides, chain),
    sweep=_sweep_hmm,
    move=_move_words,
    decode=decode,
    prepare=lambda chain, direction: chain._replace(
        tokens=group_tokens(direction.sides, len(direction.emitted.vocabulary))
    ),
    warm_up=_warm_up,
)
"""Steps of BHMM. The chain starts from the links of IBM Model 1 [SA16 §5]."""
