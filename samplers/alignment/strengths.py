"""Slice sampling of the Beta distribution's parameters s and r [SA16 §4.4, eq. 9].

Neal's (2003) univariate sampler with stepping out and shrinkage, on the logarithm of the parameter.
"""

import math

from hierogram.samplers.compiled.jit import njit, njit_inline
from hierogram.samplers.compiled.streams import advance, stream, uniform

_WIDTH = 1.0
_MOST_STEPS = 40
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


@njit_inline
def _density(x, s, r, first, before):
    """Log density of x, the logarithm of s (`first`) or else of r."""
    if first:
        return x + strength_log_density(math.exp(x), r, before)
    return x + strength_log_density(s, math.exp(x), before)


@njit
def sample_strengths(settings, before, seed, sweep):
    """Draw s given r, then r given s; `settings` SETTINGS[1] is changed in place."""
    state = stream(seed, _KEY, sweep)
    s, r = settings[0]["s"], settings[0]["r"]
    for turn in range(2):
        first = turn == 0
        x = math.log(s if first else r)
        state = advance(state)
        level = _density(x, s, r, first, before) + math.log(1.0 - uniform(state))
        state = advance(state)
        low = x - _WIDTH * uniform(state)
        high = low + _WIDTH
        # Neal's split of the steps between both ends keeps the draw reversible though they are bounded.
        state = advance(state)
        left = int(uniform(state) * _MOST_STEPS)
        right = _MOST_STEPS - 1 - left
        while left > 0 and _density(low, s, r, first, before) > level:
            low -= _WIDTH
            left -= 1
        while right > 0 and _density(high, s, r, first, before) > level:
            high += _WIDTH
            right -= 1
        while True:
            state = advance(state)
            proposed = low + (high - low) * uniform(state)
            if _density(proposed, s, r, first, before) >= level:
                break
            if proposed < x:
                low = proposed
            else:
                high = proposed
        if first:
            s = math.exp(proposed)
        else:
            r = math.exp(proposed)
    settings[0]["s"] = s
    settings[0]["r"] = r
