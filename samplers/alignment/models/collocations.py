"""BHMM-Z: an emitted word comes from the word it is linked to, or from the word before it [SA16 §3]; docs/model.md, 5.

Every emitted position has a link, drawn by its jumps alone where the word is a collocation (Z = 1). The parameters s
and r of the Beta distribution are slice sampled by their logarithms [SA16 §4.4, eq. 9].
"""

import math
from functools import partial

import numpy as np

from hierogram.samplers.alignment.bitext import Direction, number_bigrams
from hierogram.samplers.alignment.chain import Chain, choose_candidates, jump_event, pick
from hierogram.samplers.alignment.counts import has_room, lexical, link_pair, pair_key, tidy, unlink_pair
from hierogram.samplers.alignment.marginals import CELL, add_conditional, add_sample, decode
from hierogram.samplers.alignment.model1 import model1_links
from hierogram.samplers.alignment.steps import Steps
from hierogram.samplers.compiled.jit import njit, njit_inline
from hierogram.samplers.compiled.slices import slice_sample
from hierogram.samplers.compiled.streams import advance, stream, uniform

_KEY = -1
"""Stands for the pair in the key of the random stream."""


@njit
def strength_log_density(s, r, before):
    """log P(z | s, r) + log Gamma(s; 1, 1) + log Gamma(r; 1, 1), up to a constant; -inf out of range."""
    if not (s > 0.0 and r > 0.0 and s < math.inf and r < math.inf):
        return -math.inf
    total = -s - r
    both, one, other = math.lgamma(s + r), math.lgamma(s), math.lgamma(r)
    for word in range(len(before)):
        collocated, plain = before[word]["collocated"], before[word]["plain"]
        if collocated + plain > 0:
            total += both - math.lgamma(s + r + collocated + plain)
            total += math.lgamma(s + collocated) - one + math.lgamma(r + plain) - other
    return total


@njit
def _log_density_of_s(x, parameters):
    """Log density of the logarithm of s; `parameters` are r and the counts."""
    return x + strength_log_density(math.exp(x), parameters[0], parameters[1])


@njit
def _log_density_of_r(x, parameters):
    """Log density of the logarithm of r; `parameters` are s and the counts."""
    return x + strength_log_density(parameters[0], math.exp(x), parameters[1])


@njit
def sample_strengths(settings, before, seed, sweep):
    """Draw s given r, then r given s; `settings` SETTINGS[1] is changed in place."""
    state = stream(seed, _KEY, sweep)
    s, r = settings[0]["s"], settings[0]["r"]
    x, state = slice_sample(_log_density_of_s, (r, before), math.log(s), state)
    s = math.exp(x)
    x, state = slice_sample(_log_density_of_r, (s, before), math.log(r), state)
    settings[0]["s"] = s
    settings[0]["r"] = math.exp(x)


_NONE = -2


@njit_inline
def _weigh_jumps(i, before, after, jumps, symmetric):
    """Weight of link i by its jumps (linear) [SA16 eq. 6]."""
    inward = jump_event(jumps, before, i)
    weight = jumps[inward] + symmetric
    if after != _NONE:
        outward = jump_event(jumps, i, after)
        weight *= jumps[outward] + symmetric + (1.0 if outward == inward else 0.0)
    return weight


@njit_inline
def _collocation_share(g, previous, word, key, chain, settings):
    """P(Z = 1 | all else), linear [SA16 eqs. 3, 4]."""
    before = chain.before[previous]
    plain = (before["plain"] + settings["r"]) * lexical(chain.pairs, chain.conditioning, word, key, settings["lexical"])
    symmetric = settings["collocation"]
    collocated = (before["collocated"] + settings["s"]) * (chain.bigram_count[chain.bigram[g]] + symmetric)
    collocated /= before["collocated"] + symmetric * settings["emitted_words"]
    return collocated / (collocated + plain)


@njit
def sweep_collocations(first, sides, chain, key, plan, scratch, marginals):
    """Draw each link, then each Z, given all else, of the pairs from `first` on; where counts lack room, or the end."""
    settings = chain.settings[0]
    links, jumps = chain.links, chain.jumps
    for pair in range(first, len(sides.emitted_offset) - 1):
        start, stop = sides.emitted_offset[pair], sides.emitted_offset[pair + 1]
        e_start = sides.conditioning_offset[pair]
        length = sides.conditioning_offset[pair + 1] - e_start
        if length == 0:
            continue
        if not has_room(chain.pairs, stop - start):
            return pair
        state = stream(key, pair, plan.sweep)
        previous = len(chain.before) - 1
        before = -1
        for g in range(start, stop):
            f = sides.emitted[g]
            old = links[g]
            after = links[g + 1] if g + 1 < stop else _NONE
            jumps[jump_event(jumps, before, old)] -= 1
            if after != _NONE:
                jumps[jump_event(jumps, old, after)] -= 1
            word = sides.conditioning[e_start + old]
            if chain.collocated[g]:
                chain.bigram_count[chain.bigram[g]] -= 1
                chain.before[previous]["collocated"] -= 1
            else:
                row = unlink_pair(chain.pairs, chain.conditioning, word, pair_key(word, f))
                chain.before[previous]["plain"] -= 1

            number, state = choose_candidates(0, old, length, settings["candidates"], state, scratch)
            total = 0.0
            for k in range(number):
                i = scratch.candidate[k]
                weight = _weigh_jumps(i, before, after, jumps, settings["jump"])
                if not chain.collocated[g]:
                    e = sides.conditioning[e_start + i]
                    weight *= lexical(chain.pairs, chain.conditioning, e, pair_key(e, f), settings["lexical"])
                total += weight
                scratch.weight[k] = total
            state = advance(state)
            new = scratch.candidate[pick(scratch, number, state)]
            if not chain.collocated[g]:
                tidy(chain.pairs, row)
            links[g] = new
            jumps[jump_event(jumps, before, new)] += 1
            if after != _NONE:
                jumps[jump_event(jumps, new, after)] += 1

            word = sides.conditioning[e_start + new]
            share = _collocation_share(g, previous, word, pair_key(word, f), chain, settings)
            state = advance(state)
            chain.collocated[g] = 1 if uniform(state) < share else 0
            if chain.collocated[g]:
                chain.bigram_count[chain.bigram[g]] += 1
                chain.before[previous]["collocated"] += 1
            else:
                link_pair(chain.pairs, chain.conditioning, word, pair_key(word, f))
                chain.before[previous]["plain"] += 1
            if plan.sampled:
                cell = sides.cell_offset[pair] + (g - start) * length
                if number == length:
                    add_conditional(marginals, cell, g, scratch, number)
                    marginals.unlinked[g] += CELL(share)
                else:
                    add_sample(marginals, cell, g, new)
                    marginals.unlinked[g] += CELL(chain.collocated[g])
            previous = f
            before = new
    return len(sides.emitted_offset) - 1


@njit
def count_collocations(first, sides, chain):
    """Add links and collocations of the pairs from `first` on to empty counts; where they lack room, or the end."""
    jumps = chain.jumps
    for pair in range(first, len(sides.emitted_offset) - 1):
        start, stop = sides.emitted_offset[pair], sides.emitted_offset[pair + 1]
        e_start = sides.conditioning_offset[pair]
        if sides.conditioning_offset[pair + 1] == e_start:
            continue
        if not has_room(chain.pairs, stop - start):
            return pair
        previous = len(chain.before) - 1
        before = -1
        for g in range(start, stop):
            f = sides.emitted[g]
            i = chain.links[g]
            word = sides.conditioning[e_start + i]
            if chain.collocated[g]:
                chain.bigram_count[chain.bigram[g]] += 1
                chain.before[previous]["collocated"] += 1
            else:
                link_pair(chain.pairs, chain.conditioning, word, pair_key(word, f))
                chain.before[previous]["plain"] += 1
            jumps[jump_event(jumps, before, i)] += 1
            previous = f
            before = i
    return len(sides.emitted_offset) - 1


def _with_bigrams(chain: Chain, direction: Direction) -> Chain:
    bigram, bigrams = number_bigrams(direction.emitted)
    return chain._replace(bigram=bigram, bigram_count=np.zeros(bigrams, np.int32))


STEPS = Steps(
    start=lambda direction, options, seed: model1_links(
        direction.sides, len(direction.conditioning.vocabulary), with_no_word=False
    ),
    count=lambda first, sides, chain, scratch: count_collocations(first, sides, chain),
    sweep=sweep_collocations,
    # A word has no link where Z = 1 in most samples.
    decode=partial(decode, by_half=True),
    prepare=_with_bigrams,
    finish=lambda chain, key, plan: sample_strengths(chain.settings, chain.before, key, plan.sweep),
)
"""The chain begins with the links of IBM Model 1 without the empty word: here each word has a link [SA16 §5]."""
