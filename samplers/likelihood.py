"""Log-likelihood of the state: of all rule tokens, from their counts alone."""

import math

import numpy as np

from hierogram.samplers.accelerate import njit
from hierogram.samplers.models import PITMAN_YOR, Model
from hierogram.samplers.table import COUNT, SHAPE, RuleTable

_LENGTH_MASK = np.uint64(0xFFFF)


@njit
def log_rising(x, log_x, n):
    """ln x (x+1) … (x+n-1) for n ≥ 1, exact also where x has underflowed and only its logarithm is known."""
    if x < 1e-8:
        return log_x + math.lgamma(x + n) - math.lgamma(x + 1.0)
    return math.lgamma(x + n) - math.lgamma(x)


@njit
def _dirichlet(shapes, counts, rules, total, model):
    result = math.lgamma(model.strength) - math.lgamma(total + model.strength)
    for g in range(len(counts)):
        source_terminals = np.float64((shapes[g] >> np.uint64(16)) & _LENGTH_MASK)
        target_terminals = np.float64((shapes[g] >> np.uint64(32)) & _LENGTH_MASK)
        log_base = math.log(model.strength) + source_terminals * model.log_source + target_terminals * model.log_target
        result += rules[g] * log_rising(math.exp(log_base), log_base, counts[g])
    return result


@njit
def _pitman_yor(lengths, counts, rules, tokens, model):
    result = 0.0
    group = 0
    for length in range(len(tokens)):
        if tokens[length] == 0:
            continue
        result += tokens[length] * model.by_length[length]["log_poisson"]
        result -= math.lgamma(tokens[length] + model.strength) - math.lgamma(model.strength)
        seated_before = 0.0
        while group < len(counts) and lengths[group] == length:
            n = counts[group]
            for _ in range(rules[group]):
                for c in range(n):
                    own = np.float64(c) ** model.discount if c > 0 else 0.0
                    fresh = (
                        math.log(model.strength + model.discount * (seated_before + own))
                        + model.by_length[length]["log_poisson"]
                    )
                    result += math.log(c - model.discount * own + math.exp(fresh)) if c > 0 else fresh
                seated_before += np.float64(n) ** model.discount
            group += 1
    return result


def log_likelihood(table: RuleTable, model: Model) -> float:
    """ln P of all rule tokens.

    The Dirichlet process has it in closed form: ln Γ(α)/Γ(n+α) ∏ Γ(n_r + αP0(r))/Γ(αP0(r)). The Pitman-Yor
    process with estimated tables depends on the order of customers; here, within each length, the rules come
    by descending count and the customers of a rule one after the other, so the value is a function of the
    counts alone and does not depend on where rows lie.
    """
    live = table.rows[table.rows[:, COUNT] != 0]
    counts = live[:, COUNT].astype(np.int64)
    shapes = live[:, SHAPE]
    if model.kind == PITMAN_YOR:
        shapes = shapes & _LENGTH_MASK
    order = np.lexsort((-counts, shapes))
    shapes, counts = shapes[order], counts[order]
    starts = np.ones(len(counts), bool)
    starts[1:] = (shapes[1:] != shapes[:-1]) | (counts[1:] != counts[:-1])
    first = np.flatnonzero(starts)
    rules = np.diff(np.append(first, len(counts)))
    if model.kind == PITMAN_YOR:
        return float(
            _pitman_yor(shapes[first].astype(np.int64), counts[first], rules, table.by_length["tokens"].copy(), model)
        )
    return float(_dirichlet(shapes[first], counts[first], rules, table.rule_tokens, model))
