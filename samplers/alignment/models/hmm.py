"""BHMM: the Bayesian HMM aligner with special jumps to and from no word [SA16 §2]; docs/model.md, section 5."""

from hierogram.samplers.alignment.chain import UNLINKED, choose_candidates, jump_event, pick
from hierogram.samplers.alignment.counts import has_room, lexical, link_pair, pair_key, tidy, unlink_pair
from hierogram.samplers.alignment.marginals import add_conditional, add_sample, decode
from hierogram.samplers.alignment.model1 import model1_links
from hierogram.samplers.alignment.steps import Steps
from hierogram.samplers.compiled.jit import njit, njit_inline
from hierogram.samplers.compiled.streams import advance, stream

_START = -2


@njit_inline
def _event(jumps, start, stop):
    if stop == UNLINKED:
        return len(jumps) - 3
    if start == UNLINKED:
        return len(jumps) - 2
    return jump_event(jumps, -1 if start == _START else start, stop)


@njit_inline
def _conditioning_word(sides, e_start, i, conditioning):
    return len(conditioning) - 1 if i == UNLINKED else sides.conditioning[e_start + i]


@njit_inline
def _weigh_jumps(i, before, after, jumps, symmetric):
    """Weight of link i (linear): jump in and jump out [SA16 eq. 5]."""
    inward = _event(jumps, before, i)
    weight = jumps[inward] + symmetric
    if after != _START:
        outward = _event(jumps, i, after)
        weight *= jumps[outward] + symmetric + (1.0 if outward == inward else 0.0)
    return weight


@njit
def sweep_hmm(first, sides, chain, key, plan, scratch, marginals):
    """Draw each link of the pairs from `first` on, given all others; the pair at which counts lack room, or the end."""
    settings = chain.settings[0]
    links, jumps = chain.links, chain.jumps
    for pair in range(first, len(sides.emitted_offset) - 1):
        start, stop = sides.emitted_offset[pair], sides.emitted_offset[pair + 1]
        e_start = sides.conditioning_offset[pair]
        length = sides.conditioning_offset[pair + 1] - e_start
        if not has_room(chain.pairs, stop - start):
            return pair
        state = stream(key, pair, plan.sweep)
        for g in range(start, stop):
            f = sides.emitted[g]
            old = links[g]
            before = links[g - 1] if g > start else _START
            after = links[g + 1] if g + 1 < stop else _START
            jumps[_event(jumps, before, old)] -= 1
            if after != _START:
                jumps[_event(jumps, old, after)] -= 1
            old_word = _conditioning_word(sides, e_start, old, chain.conditioning)
            row = unlink_pair(chain.pairs, chain.conditioning, old_word, pair_key(old_word, f))

            number, state = choose_candidates(UNLINKED, old, length, settings["candidates"], state, scratch)
            total = 0.0
            for k in range(number):
                i = scratch.candidate[k]
                word = _conditioning_word(sides, e_start, i, chain.conditioning)
                weight = _weigh_jumps(i, before, after, jumps, settings["jump"])
                total += weight * lexical(chain.pairs, chain.conditioning, word, pair_key(word, f), settings["lexical"])
                scratch.weight[k] = total
            state = advance(state)
            new = scratch.candidate[pick(scratch, number, state)]

            new_word = _conditioning_word(sides, e_start, new, chain.conditioning)
            if new_word == old_word:
                chain.pairs.rows[row]["count"] += 1
                chain.conditioning[old_word]["links"] += 1
            else:
                tidy(chain.pairs, row)
                link_pair(chain.pairs, chain.conditioning, new_word, pair_key(new_word, f))
            links[g] = new
            jumps[_event(jumps, before, new)] += 1
            if after != _START:
                jumps[_event(jumps, new, after)] += 1
            if plan.sampled:
                cell = sides.cell_offset[pair] + (g - start) * length
                if number == length + 1:
                    add_conditional(marginals, cell, g, scratch, number)
                else:
                    add_sample(marginals, cell, g, new)
    return len(sides.emitted_offset) - 1


@njit
def count_hmm(first, sides, chain):
    """Add the links of the pairs from `first` on to empty counts; the pair at which they lack room, or the end."""
    jumps = chain.jumps
    for pair in range(first, len(sides.emitted_offset) - 1):
        start, stop = sides.emitted_offset[pair], sides.emitted_offset[pair + 1]
        if not has_room(chain.pairs, stop - start):
            return pair
        before = _START
        for g in range(start, stop):
            i = chain.links[g]
            word = _conditioning_word(sides, sides.conditioning_offset[pair], i, chain.conditioning)
            link_pair(chain.pairs, chain.conditioning, word, pair_key(word, sides.emitted[g]))
            jumps[_event(jumps, before, i)] += 1
            before = i
    return len(sides.emitted_offset) - 1


STEPS = Steps(
    start=lambda direction, options, seed: model1_links(direction.sides, len(direction.conditioning.vocabulary)),
    count=lambda first, sides, chain, scratch: count_hmm(first, sides, chain),
    sweep=sweep_hmm,
    decode=decode,
)
"""The chain begins with the links of IBM Model 1 [SA16 §5]."""
