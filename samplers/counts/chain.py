"""State of a Markov chain over derivations, statistics of sweeps, and log likelihood of rule counts."""

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit
from hierogram.samplers.compiled.powers import log_rising
from hierogram.samplers.counts.models import Model
from hierogram.samplers.counts.table import COUNT, SIZE, CountTable
from hierogram.samplers.exceptions import SamplerError
from hierogram.samplers.forests.averages import Averages
from hierogram.samplers.forests.derivations import State
from hierogram.samplers.forests.fragments import source_terminals_of, target_terminals_of
from hierogram.samplers.grammar.keys import SIZE_BITS, length_of


class ChainState(NamedTuple):
    """Derivations and expected rule uses of a batch, and rule counts of all batches of the chain."""

    derivations: State
    table: CountTable
    averages: Averages


class CountsError(SamplerError, RuntimeError):
    """Derivations and counts do not match, or stored counts are damaged."""


class SweepInfo(NamedTuple):
    """Statistics of one sweep. ITGs count proposals and accepted proposals as edges."""

    edges_sampled: int
    edges_changed: int
    cuts_sampled: int
    cuts_changed: int


STATISTICS = np.dtype([(name, np.int64) for name in SweepInfo._fields])
"""Record of `SweepInfo` in scratch memory, which kernels add to."""

_COUNT_BITS = np.uint64(64 - 3 * SIZE_BITS)
"""Number of free bits in a uint64 with a packed rule size."""
_MAX_PACKED_COUNT = (1 << int(_COUNT_BITS)) - 1
_COUNT_MASK = np.uint64(_MAX_PACKED_COUNT)

_MIN_PRODUCT, _MAX_PRODUCT = 1e-8, 1e150


@njit
def _log_dirichlet(packed, counts, rules, total, model):
    result = math.lgamma(model.strength) - math.lgamma(total + model.strength)
    for g in range(len(counts)):
        source_terminals = np.float64(source_terminals_of(packed[g]))
        target_terminals = np.float64(target_terminals_of(packed[g]))
        log_base = math.log(model.strength) + source_terminals * model.log_source + target_terminals * model.log_target
        result += rules[g] * log_rising(math.exp(log_base), log_base, counts[g])
    return result


@njit
def _log_pitman_yor(lengths, counts, rules, tokens, model):
    result = 0.0
    group = 0
    # Multiply moderate factors, and take the logarithm before the product leaves the range of a float.
    product = 1.0
    for length in range(len(tokens)):
        if tokens[length] == 0:
            continue
        log_poisson = model.by_length[length]["log_poisson"]
        poisson = math.exp(log_poisson)
        result += tokens[length] * log_poisson
        result -= math.lgamma(tokens[length] + model.strength) - math.lgamma(model.strength)
        tables_before = 0.0
        while group < len(counts) and lengths[group] == length:
            n = counts[group]
            tables = np.float64(n) ** model.discount
            result += rules[group] * log_poisson
            for _ in range(rules[group]):
                product *= model.strength + model.discount * tables_before
                for c in range(1, n):
                    own = np.float64(c) ** model.discount
                    new = (model.strength + model.discount * (tables_before + own)) * poisson
                    product *= c - model.discount * own + new
                    if not _MIN_PRODUCT < product < _MAX_PRODUCT:
                        result += math.log(product)
                        product = 1.0
                if not _MIN_PRODUCT < product < _MAX_PRODUCT:
                    result += math.log(product)
                    product = 1.0
                tables_before += tables
            group += 1
    return result + math.log(product)


def _group_rules(
    packed: NDArray[np.uint64], counts: NDArray[np.int64]
) -> tuple[NDArray[np.uint64], NDArray[np.int64], NDArray[np.int64]]:
    """Group rules by packed size and count. Returns each group's size, count and number of rules."""
    # Pack size and count in one integer if possible, since integers sort ten times as fast as pairs of integers.
    small = counts < _MAX_PACKED_COUNT
    keys, rules = np.unique(
        packed[small] << _COUNT_BITS | (_MAX_PACKED_COUNT - counts[small]).astype(np.uint64), return_counts=True
    )
    large, large_rules = np.unique(
        np.column_stack((packed[~small], counts[~small].astype(np.uint64))), axis=0, return_counts=True
    )
    packed = np.append(keys >> _COUNT_BITS, large[:, 0])
    counts = np.append(_MAX_PACKED_COUNT - (keys & _COUNT_MASK).astype(np.int64), large[:, 1].astype(np.int64))
    order = np.lexsort((-counts, packed))
    return packed[order], counts[order], np.append(rules, large_rules)[order]


def log_likelihood(table: CountTable, model: Model) -> float:
    """Return the log probability of all rule tokens, ln P.

    The Dirichlet process has a closed form: ln (Γ(α)/Γ(n+α) ∏ Γ(n_r + αP0(r))/Γ(αP0(r))) for counts n_r with the sum n.
    The probability under the Pitman-Yor process with estimated tables depends on the order of customers. Here the rules
    of each length are in descending order of count, so that the value depends only on the counts.
    """
    live = table.rows[np.flatnonzero(table.tags)]
    counts, packed = live[:, COUNT].astype(np.int64), live[:, SIZE]
    if model.pitman_yor:
        packed, counts, rules = _group_rules(length_of(packed).astype(np.uint64), counts)
        return float(_log_pitman_yor(packed.astype(np.int64), counts, rules, table.by_length["tokens"].copy(), model))
    return float(_log_dirichlet(*_group_rules(packed, counts), table.rule_tokens, model))
