"""BHMM-F: HMM aligner with fertilities. Jumps skip unlinked words.

It differs from [SA16 §2] in four points. An unlinked word keeps the position of the last linked word, as in the HMM of
Och & Ney (2003). The last linked word jumps to the end. A word is unlinked with a fixed probability. Each conditioning
word has a distribution over its fertility, the number of links of a token [Zhao & Gildea 2010], with a Dirichlet prior,
integrated out. The posterior is proportional to the product of the factors for words, jumps and fertilities. Stage 1 of
the warm-up omits jumps and fertilities, and stage 2 omits fertilities.
"""

import numpy as np

from hierogram.samplers.alignment.chain import (
    MAX_FERTILITY,
    SINGLE_WIDTHS,
    UNLINKED,
    apply_evidence,
    conditioning_word,
    draw_index,
    find_repetitions,
    jump_event,
    jump_share,
)
from hierogram.samplers.alignment.counts import (
    SHIFT,
    copy_pairs,
    has_room,
    lexical,
    link_pair,
    may_have_row,
    pair_key,
    relink_pair,
    total_mass,
    unfiltered_weight,
    unlink_pair,
)
from hierogram.samplers.alignment.marginals import CELL, add_marginals, decode, load_sums, store_sums
from hierogram.samplers.alignment.model1 import random_links
from hierogram.samplers.alignment.models.sampler import ModelFunctions
from hierogram.samplers.alignment.options import AlignmentPlan
from hierogram.samplers.compiled.intrinsics import prefetch
from hierogram.samplers.compiled.jit import njit, njit_inline
from hierogram.samplers.compiled.streams import GOLDEN, advance, stream

WORDS, JUMPS, FERTILITIES = 1, 2, 3
"""Stages of the warm-up (`AlignmentPlan.stage`), named after the factor that each adds."""


@njit_inline
def _count_jump(before, after, change, jumps):
    jumps[jump_event(jumps, before, after)] += change
    jumps[len(jumps) - 1] += change


@njit_inline
def _count_link(word, i, before, after, change, chain, scratch):
    """Add (`change` 1) or remove (-1) a link to position i or UNLINKED in the counts."""
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
    """Return the factor of a link's weight that is the same for all emitted words, linear."""
    factor = 1.0 / total_mass(chain.totals, word)
    fertility = scratch.fertility[i]
    if stage < FERTILITIES or fertility >= MAX_FERTILITY:
        return factor
    # Multiply by the probability of one more link, divided by the probability of the current number of links.
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
    """Multiply the weight of each position by the factor of the jump from `origin`, or to it (`sign` -1)."""
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
            factor = jumps[np.uint64(outward - i)] + symmetric + same
            scratch.weight[i + 1] *= (jumps[np.uint64(inward + i)] + symmetric) * factor
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
def _filter_positions(f, length, pairs, scratch, filtered):
    """Write the positions that may have a row with word f, and prefetch the rows. Returns their number."""
    shift = pairs.registers[SHIFT]
    hashed_word = np.uint64(f) * GOLDEN
    number = 0
    for i in range(length):
        filtered[number] = i
        number += may_have_row(pairs.filter_bytes, scratch.hashed[i] + hashed_word, shift)
    for k in range(number):
        prefetch(pairs.rows, np.int64((scratch.hashed[filtered[k]] + hashed_word) >> np.uint64(shift)))
    return np.int64(number)


@njit_inline
def _weigh_links(f, e_start, length, filtered, bitext, chain, settings, scratch):
    """Set the weights of links of word f, without jumps. Only the positions `filtered` may have a row."""
    for i in range(length):
        scratch.weight[i + 1] = settings["lexical"]
    for k in range(len(filtered)):
        i = np.int64(filtered[k])
        word = np.int64(bitext.conditioning[e_start + i])
        scratch.weight[i + 1] = unfiltered_weight(chain.pairs, word, f) + settings["lexical"]
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
def _sweep_fertility(first, bitext, chain, key, plan, scratch, marginals):
    settings, links = chain.settings[0], chain.links
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
        _find_next_links(start, stop, length, links, scratch)
        for i in range(length):
            word = np.int64(bitext.conditioning[e_start + i])
            scratch.factor[i] = _conditioning_factor(word, i, plan.stage, chain, settings, scratch)
            # Hash each word once: the hash of a pair is the sum of the hashes of both words.
            scratch.hashed[i] = pair_key(word, 0) * GOLDEN
        find_repetitions(bitext.conditioning, e_start, length, scratch)
        before = np.int64(-1)
        next_number = np.int64(0)
        for g in range(start, stop):
            f = bitext.emitted[g]
            old = np.int64(links[g])
            after = np.int64(scratch.after[g - start])
            old_word = conditioning_word(bitext, e_start, old, empty_word)
            _count_link(old_word, old, before, after, -1, chain, scratch)
            row = unlink_pair(chain.pairs, chain.totals, old_word, f)

            if old != UNLINKED:
                _refresh_factors(old_word, old, plan.stage, chain, settings, scratch)

            if g == start or f == bitext.emitted[g - 1]:
                next_number = _filter_positions(f, length, chain.pairs, scratch, scratch.filtered[g & 1])
            filtered = scratch.filtered[g & 1, :next_number]
            if g + 1 < stop:
                # The rows of the next word can be prefetched now, since this link only changes rows of this word.
                next_filtered = scratch.filtered[(g + 1) & 1]
                next_number = _filter_positions(bitext.emitted[g + 1], length, chain.pairs, scratch, next_filtered)
            unlinked = lexical(chain.pairs, chain.totals, empty_word, f, settings["lexical"])
            scratch.weight[0] = _weigh_unlinked(before, after, plan.stage, chain, settings) * unlinked
            _weigh_links(f, e_start, length, filtered, bitext, chain, settings, scratch)
            if plan.stage >= JUMPS:
                _multiply_jumps(before, after, length, chain, settings, scratch)
            apply_evidence(chain.evidence, g, length, scratch.weight)
            total = scratch.weight[0]
            for k in range(1, length + 1):
                total += scratch.weight[k]
                scratch.weight[k] = total
            state = advance(state)
            new = draw_index(scratch.weight, length + 1, state) - 1

            new_word = conditioning_word(bitext, e_start, new, empty_word)
            _count_link(new_word, new, before, after, 1, chain, scratch)
            if new != UNLINKED:
                before = new
            relink_pair(chain.pairs, chain.totals, row, old_word, new_word, f)
            if new != UNLINKED:
                _refresh_factors(new_word, new, plan.stage, chain, settings, scratch)
            links[g] = new
            if plan.sampled:
                first_cell = (g - start) * (length + 1)
                scale = 1.0 / scratch.weight[length]
                marginals.cells[first_cell] += CELL(scratch.weight[0] * scale)
                for i in range(1, length + 1):
                    marginals.cells[first_cell + i] += CELL((scratch.weight[i] - scratch.weight[i - 1]) * scale)
        if plan.sampled:
            store_sums(bitext, pair, marginals.samples[0] + 1, marginals)
    return len(bitext.emitted_offset) - 1


@njit
def _count_fertility(first, bitext, chain, scratch):
    jumps = chain.jumps
    empty_word = np.int64(len(chain.totals) - 1)
    for pair in range(first, len(bitext.emitted_offset) - 1):
        start, stop = bitext.emitted_offset[pair], bitext.emitted_offset[pair + 1]
        e_start = bitext.conditioning_offset[pair]
        length = bitext.conditioning_offset[pair + 1] - e_start
        if not has_room(chain.pairs, stop - start):
            return pair
        _find_next_links(start, stop, length, chain.links, scratch)
        before = np.int64(-1)
        for g in range(start, stop):
            i = np.int64(chain.links[g])
            word = conditioning_word(bitext, e_start, i, empty_word)
            if i != UNLINKED:
                _count_jump(before, i, 1, jumps)
                before = i
            link_pair(chain.pairs, chain.totals, word, bitext.emitted[g])
        # Skip pairs without emitted words, because sweeps count no jumps for them.
        if stop > start:
            _count_jump(before, length, 1, jumps)
        for i in range(length):
            chain.fertility[bitext.conditioning[e_start + i], min(scratch.fertility[i], MAX_FERTILITY)] += 1
    return len(bitext.emitted_offset) - 1


@njit_inline
def _reset(blank, links, chain):
    for g in range(len(links)):
        chain.links[g] = links[g]
    copy_pairs(blank.pairs, chain.pairs)
    for k in range(len(blank.totals)):
        chain.totals[k] = blank.totals[k]
    for k in range(len(blank.jumps)):
        chain.jumps[k] = blank.jumps[k]
    for word in range(len(blank.fertility)):
        for links_of_word in range(MAX_FERTILITY + 1):
            chain.fertility[word, links_of_word] = blank.fertility[word, links_of_word]


@njit
def _run_fertility_chains(first, bitext, runs, blank, chain, scratch, marginals, total):
    pairs = len(bitext.emitted_offset) - 1
    for number in range(first, len(runs.keys)):
        _reset(blank, runs.links[number], chain)
        marginals.samples[0] = 0
        if _count_fertility(0, bitext, chain, scratch) < pairs:
            return number
        for k in range(len(runs.plans)):
            plan = AlignmentPlan(runs.plans[k, 0], runs.plans[k, 1], runs.plans[k, 2] != 0)
            if _sweep_fertility(0, bitext, chain, runs.keys[number], plan, scratch, marginals) < pairs:
                return number
            marginals.samples[0] += plan.sampled
        add_marginals(bitext, total, marginals)
    return len(runs.keys)


FUNCTIONS = ModelFunctions(
    initial_links=lambda direction, options, seed: random_links(direction.bitext, seed, options.unlinked),
    count_links=_count_fertility,
    sweep=_sweep_fertility,
    run_chains=_run_fertility_chains,
    decode=decode,
)
"""BHMM-F. The chain starts from random links."""
