"""Slice sampling of the Beta distribution's parameters s and r, by their logarithms [SA16 §4.4, eq. 9]."""

import math

from hierogram.samplers.compiled.jit import njit
from hierogram.samplers.compiled.slices import slice_sample
from hierogram.samplers.compiled.streams import stream

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
