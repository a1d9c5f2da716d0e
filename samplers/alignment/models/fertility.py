"""BHMM-F: HMM aligner with fertilities. Jumps skip unlinked words.

It differs from [SA16 §2] in four points. An unlinked word keeps the position of the last linked word, as in the HMM of
Och & Ney (2003). The last linked word jumps to the end. A word is unlinked with a fixed probability. Each conditioning
word has a distribution over its number of links [Zhao & Gildea 2010] with a Dirichlet prior, integrated out. The
posterior is proportional to the product of the factors for words, jumps and fertilities. Stage 1 of the warm-up omits
jumps and fertilities, and stage 2 omits fertilities.
"""

import numpy as np

from hierogram.samplers.alignment.chain import (
    MAX_FERTILITY,
    SINGLE_WIDTHS,
    UNLINKED,
    apply_evidence,
    conditioning_word,
    jump_event,
    jump_share,
    link_equal_words,
    pick,
)
from hierogram.samplers.alignment.counts import (
    SHIFT,
    conditioning_mass,
    copy_pairs,
    free_if_unused,
    has_room,
    known_weight,
    lexical,
    link_pair,
    may_have_row,
    pair_key,
    unlink_pair,
)
from hierogram.samplers.alignment.marginals import CELL, add_marginals, decode, load_sums, store_sums
from hierogram.samplers.alignment.model1 import random_links
from hierogram.samplers.alignment.models.sampler import Steps
from hierogram.samplers.alignment.options import AlignmentPlan
from hierogram.samplers.compiled.intrinsics import prefetch
from hierogram.samplers.compiled.jit import njit, njit_inline
from hierogram.samplers.compiled.streams import GOLDEN, advance, stream

WORDS, JUMPS, FERTILITIES = 1, 2, 3
"""Stages of the warm-up, named after the factor that each adds."""


@njit_inline
def _count_jump(before, after, change, jumps):
    jumps[jump_event(jumps, before, after)] += change
    jumps[len(jumps) - 1] += change


@njit_inline
def _count_link(word, i, before, after, change, chain, scratch):
    """Add (`change` 1) or remove (-1) a link to position i or UNLINKED in the jump and fertility counts."""
    if i == UNLINKED:
        _count_jump(before, after, change, chain.jumps)
    else:
        _count_jump(before, i, change, chain.jumps)
        _count_jump(i, after, change, chain.jumps)
        chain.fertility[word, min(scratch.fertility[i], MAX_FERTILITY)] -= 1
        scratch.fertility[i] += change
        chain.fertility[word, min(scratch.fertility[i], MAX_FERTILITY)] += 1


@njit_inline
def _weigh_unlinked(before, after, stage, chain, settings):
    weight = settings["unlinked"]
    if stage >= JUMPS:
        jumps = chain.jumps
        kinds = len(jumps) - 3
        event = jump_event(jumps, before, after)
        weight *= (jumps[event] + settings["jump"]) * jump_share(jumps, event)
        # An unlinked word has one jump fewer. Multiply by the normalizer of jumps, which the other weights omit.
        weight *= jumps[len(jumps) - 1] + 1 + settings["jump"] * kinds
    return weight


@njit_inline
def _conditioning_factor(word, i, stage, chain, settings, scratch):
    """Return the factor of a link's weight that does not depend on the emitted word or on jumps, linear."""
    factor = 1.0 / conditioning_mass(chain.conditioning, word)
    fertility = scratch.fertility[i]
    if stage < FERTILITIES or fertility >= MAX_FERTILITY:
        return factor
    # Multiply by the probability of one more link, divided by the probability of the current number.
    strength = settings["fertility"]
    now = chain.fertility[word, fertility] - 1 + strength * chain.fertility_prior[fertility]
    more = chain.fertility[word, fertility + 1] + strength * chain.fertility_prior[fertility + 1]
    return factor * (more / now)


@njit_inline
def _refresh_factors(word, i, stage, chain, settings, scratch):
    at = i
    while True:
        scratch.factor[at] = _conditioning_factor(word, at, stage, chain, settings, scratch)
        at = np.int64(scratch.next_equal[at])
        if at == i:
            break


@njit_inline
def _multiply_jumps_at(origin, sign, length, jumps, symmetric, weight):
    """Multiply the weights of positions by factors of jumps from `origin` (`sign` 1) or to it (-1)."""
    middle = (len(jumps) - 4) // 2
    for i in range(max(0, origin - SINGLE_WIDTHS), min(length, origin + SINGLE_WIDTHS + 1)):
        weight[i + 1] *= jumps[middle + sign * (i - origin)] + symmetric
    # Compute the factor of wider jumps once per event, since all positions of an event share it.
    event, nearest = SINGLE_WIDTHS + 1, SINGLE_WIDTHS + 1
    while origin + nearest < length or origin - nearest >= 0:
        factor = (jumps[middle + sign * event] + symmetric) * jump_share(jumps, middle + event)
        for i in range(origin + nearest, min(length, origin + 2 * nearest - 1)):
            weight[i + 1] *= factor
        factor = (jumps[middle - sign * event] + symmetric) * jump_share(jumps, middle + event)
        for i in range(max(0, origin - 2 * nearest + 2), origin - nearest + 1):
            weight[i + 1] *= factor
        event, nearest = event + 1, 2 * nearest - 1


@njit_inline
def _multiply_jumps(before, after, length, chain, settings, scratch):
    jumps = chain.jumps
    symmetric = settings["jump"]
    middle = (len(jumps) - 4) // 2
    if length <= min(middle, SINGLE_WIDTHS):
        # Short sentences need no shared events. Unsigned indices need no wraparound check, so the loop vectorizes.
        inward, outward = middle - before, middle + after
        for i in range(length):
            same = 1.0 if i - before == after - i else 0.0
            weight = jumps[np.uint64(outward - i)] + symmetric + same
            scratch.weight[i + 1] *= (jumps[np.uint64(inward + i)] + symmetric) * weight
    else:
        _multiply_jumps_at(before, 1, length, jumps, symmetric, scratch.weight)
        _multiply_jumps_at(after, -1, length, jumps, symmetric, scratch.weight)
        # If both jumps have the same event, the second jump also counts the first, so add 1 to the count. Such a
        # position is strictly between `before` and `after`, or equal to both.
        for i in range(min(before, after) + 1, max(before, after)):
            event = jump_event(jumps, before, i)
            if event == jump_event(jumps, i, after):
                scratch.weight[i + 1] *= (jumps[event] + symmetric + 1.0) / (jumps[event] + symmetric)
        if before == after:
            scratch.weight[before + 1] *= (jumps[middle] + symmetric + 1.0) / (jumps[middle] + symmetric)


@njit_inline
def _find_pairs(word, length, pairs, scratch, seen):
    shift = pairs.registers[SHIFT]
    own = np.uint64(word) * GOLDEN
    found = 0
    for i in range(length):
        seen[found] = i
        found += may_have_row(pairs.filter_bytes, scratch.hashed[i] + own, shift)
    for k in range(found):
        prefetch(pairs.rows, np.int64((scratch.hashed[seen[k]] + own) >> np.uint64(shift)))
    return np.int64(found)


@njit_inline
def _weigh_links(f, e_start, length, seen, sides, chain, settings, scratch):
    """Set the weights of links of word f, without jumps. Only the positions `seen` can have a row."""
    for i in range(length):
        scratch.weight[i + 1] = settings["lexical"]
    for k in range(len(seen)):
        i = np.int64(seen[k])
        word = np.int64(sides.conditioning[e_start + i])
        scratch.weight[i + 1] = known_weight(chain.pairs, pair_key(word, f)) + settings["lexical"]
    linked = 1.0 - settings["unlinked"]
    for i in range(length):
        scratch.weight[i + 1] = linked * scratch.weight[i + 1] * scratch.factor[i]


@njit_inline
def _find_next_links(start, stop, length, links, scratch):
    scratch.fertility[:length] = 0
    after = length
    for g in range(stop - 1, start - 1, -1):
        scratch.after[g - start] = after
        if links[g] != UNLINKED:
            after = links[g]
            scratch.fertility[links[g]] += 1


@njit
def _sweep_fertility(first, sides, chain, key, plan, scratch, marginals):
    settings, links = chain.settings[0], chain.links
    empty_word = np.int64(len(chain.conditioning) - 1)
    for pair in range(first, len(sides.emitted_offset) - 1):
        start, stop = sides.emitted_offset[pair], sides.emitted_offset[pair + 1]
        e_start = sides.conditioning_offset[pair]
        length = sides.conditioning_offset[pair + 1] - e_start
        if not has_room(chain.pairs, stop - start):
            return pair
        state = stream(key, pair, plan.sweep)
        if plan.sampled:
            load_sums(sides, pair, marginals)
        _find_next_links(start, stop, length, links, scratch)
        for i in range(length):
            word = np.int64(sides.conditioning[e_start + i])
            scratch.factor[i] = _conditioning_factor(word, i, plan.stage, chain, settings, scratch)
            # Hash each word once: the hash of a pair is the sum of the hashes of both words.
            scratch.hashed[i] = pair_key(word, 0) * GOLDEN
        link_equal_words(sides.conditioning, e_start, length, scratch)
        before = np.int64(-1)
        next_found = np.int64(0)
        for g in range(start, stop):
            f = sides.emitted[g]
            old = np.int64(links[g])
            after = np.int64(scratch.after[g - start])
            old_word = conditioning_word(sides, e_start, old, chain.conditioning)
            _count_link(old_word, old, before, after, -1, chain, scratch)
            row = unlink_pair(chain.pairs, chain.conditioning, old_word, pair_key(old_word, f))

            if old != UNLINKED:
                _refresh_factors(old_word, old, plan.stage, chain, settings, scratch)

            if g == start or f == sides.emitted[g - 1]:
                next_found = _find_pairs(f, length, chain.pairs, scratch, scratch.seen[g & 1])
            seen = scratch.seen[g & 1, :next_found]
            if g + 1 < stop:
                # The rows of the next word can be prefetched now, since this link only changes rows of this word.
                next_found = _find_pairs(sides.emitted[g + 1], length, chain.pairs, scratch, scratch.seen[(g + 1) & 1])
            key_of_empty = pair_key(empty_word, f)
            unlinked = lexical(chain.pairs, chain.conditioning, empty_word, key_of_empty, settings["lexical"])
            scratch.weight[0] = _weigh_unlinked(before, after, plan.stage, chain, settings) * unlinked
            _weigh_links(f, e_start, length, seen, sides, chain, settings, scratch)
            if plan.stage >= JUMPS:
                _multiply_jumps(before, after, length, chain, settings, scratch)
            apply_evidence(chain.evidence, g, length, scratch.weight)
            total = scratch.weight[0]
            for k in range(1, length + 1):
                total += scratch.weight[k]
                scratch.weight[k] = total
            state = advance(state)
            new = pick(scratch.weight, length + 1, state) - 1

            new_word = conditioning_word(sides, e_start, new, chain.conditioning)
            _count_link(new_word, new, before, after, 1, chain, scratch)
            if new != UNLINKED:
                before = new
            if new_word == old_word:
                chain.pairs.rows[row]["count"] += 1
                chain.conditioning[old_word]["links"] += 1
            else:
                free_if_unused(chain.pairs, row)
                link_pair(chain.pairs, chain.conditioning, new_word, pair_key(new_word, f))
            if new != UNLINKED:
                _refresh_factors(new_word, new, plan.stage, chain, settings, scratch)
            links[g] = new
            if plan.sampled:
                row_of_word = (g - start) * (length + 1)
                scale = 1.0 / scratch.weight[length]
                marginals.cells[row_of_word] += CELL(scratch.weight[0] * scale)
                for i in range(1, length + 1):
                    marginals.cells[row_of_word + i] += CELL((scratch.weight[i] - scratch.weight[i - 1]) * scale)
        if plan.sampled:
            store_sums(sides, pair, marginals.samples[0] + 1, marginals)
    return len(sides.emitted_offset) - 1


@njit
def _count_fertility(first, sides, chain, scratch):
    jumps = chain.jumps
    for pair in range(first, len(sides.emitted_offset) - 1):
        start, stop = sides.emitted_offset[pair], sides.emitted_offset[pair + 1]
        e_start = sides.conditioning_offset[pair]
        length = sides.conditioning_offset[pair + 1] - e_start
        if not has_room(chain.pairs, stop - start):
            return pair
        _find_next_links(start, stop, length, chain.links, scratch)
        before = np.int64(-1)
        for g in range(start, stop):
            i = np.int64(chain.links[g])
            word = conditioning_word(sides, e_start, i, chain.conditioning)
            if i != UNLINKED:
                _count_jump(before, i, 1, jumps)
                before = i
            link_pair(chain.pairs, chain.conditioning, word, pair_key(word, sides.emitted[g]))
        # Skip pairs without emitted words, because sweeps count no jumps for them.
        if stop > start:
            _count_jump(before, length, 1, jumps)
        for i in range(length):
            chain.fertility[sides.conditioning[e_start + i], min(scratch.fertility[i], MAX_FERTILITY)] += 1
    return len(sides.emitted_offset) - 1


@njit_inline
def _reset(blank, links, chain):
    for g in range(len(links)):
        chain.links[g] = links[g]
    copy_pairs(blank.pairs, chain.pairs)
    for k in range(len(blank.conditioning)):
        chain.conditioning[k] = blank.conditioning[k]
    for k in range(len(blank.jumps)):
        chain.jumps[k] = blank.jumps[k]
    for word in range(len(blank.fertility)):
        for links_of_word in range(MAX_FERTILITY + 1):
            chain.fertility[word, links_of_word] = blank.fertility[word, links_of_word]


@njit
def _run_fertility_chains(first, sides, runs, blank, chain, scratch, own, total):
    pairs = len(sides.emitted_offset) - 1
    for number in range(first, len(runs.keys)):
        _reset(blank, runs.links[number], chain)
        own.samples[0] = 0
        if _count_fertility(0, sides, chain, scratch) < pairs:
            return number
        for k in range(len(runs.plans)):
            plan = AlignmentPlan(runs.plans[k, 0], runs.plans[k, 1], runs.plans[k, 2] != 0)
            if _sweep_fertility(0, sides, chain, runs.keys[number], plan, scratch, own) < pairs:
                return number
            own.samples[0] += plan.sampled
        add_marginals(sides, total, own)
    return len(runs.keys)


STEPS = Steps(
    start=lambda direction, options, seed: random_links(direction.sides, seed, options.unlinked),
    count=_count_fertility,
    sweep=_sweep_fertility,
    run_chains=_run_fertility_chains,
    decode=decode,
)
"""Steps of BHMM-F. The chain starts from random links."""
