"""Rule models: a Dirichlet process, or a Pitman-Yor process per rule length [CFGŠ14 §4.1, §5.2].

Kernels use linear probabilities, or natural logarithms for long rules, whose probability may underflow. A customer is a
use of a rule, and the tables of a rule are estimated as t_r = n_r^d for n_r customers. Estimated tables are integers in
units of 2^-32 tables, so that their sum does not depend on the order of additions.
"""

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit, njit_inline
from hierogram.samplers.grammar.settings import MODELS, PITMAN_YOR

TABLE_UNIT = 2.0**32
"""Integer that represents one table."""
_ONE_UNIT = 1.0 / TABLE_UNIT
_TABULATED_COUNTS = 1 << 14
_LINEAR_NATS = 250.0
"""Rules whose probability may be below e^-250 are scored in log space to avoid underflow."""


BY_LENGTH = np.dtype(
    [("poisson", np.float64), ("log_poisson", np.float64), ("power_source", np.float64), ("power_target", np.float64)]
)
"""Record of length l: Poisson probability, its natural log, and linear V_f^-l and V_e^-l."""

BY_COUNT = np.dtype([("tables", np.int64), ("more_tables", np.int64), ("discounted", np.float64)])
"""Record of count n, for discount d.

`tables` is n^d (0 for n = 0) and `more_tables` is (n+1)^d - n^d, in units of 2^-32. `discounted` is n - d n^d.
"""


class Model(NamedTuple):
    """Constants of a rule model for the kernels."""

    # True for the Pitman-Yor process, False for the Dirichlet process.
    pitman_yor: bool
    # Strength α and discount d.
    strength: float
    discount: float
    # BY_LENGTH[L], BY_COUNT[C]: values by rule length, and by count. Functions compute the values of larger counts.
    by_length: NDArray[np.void]
    by_count: NDArray[np.void]
    # Natural log of 1 / vocabulary size, for each side.
    log_source: float
    log_target: float
    # Rules are scored in log space from this length (Pitman-Yor process) or number of terminals (Dirichlet process) on.
    long: int


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """Rule model settings: `kind`, `strength` α > 0, `discount` d in [0, 1), and `rate` λ > 0.

    `kind` is `DIRICHLET` or `PITMAN_YOR` of `hierogram.samplers.grammar.settings`. Only the Pitman-Yor process uses the
    discount, and the rate of the Poisson distribution of lengths [CFGŠ14 §5.2].
    """

    kind: str = PITMAN_YOR
    strength: float = 5.0
    discount: float = 0.5
    rate: float = 2.0


def build_model(settings: ModelSettings, source_types: int, target_types: int, longest_rule: int) -> Model:
    """Build the kernel constants for rules of length up to `longest_rule` and the given vocabulary sizes.

    The base P0 = V_f^-|f| V_e^-|e| of the Dirichlet process is not normalized over rule sizes: a rule without terminals
    has P0 = 1. Raises `ValueError` if a setting is invalid.
    """
    if settings.kind not in MODELS:
        raise ValueError(f"model must be {' or '.join(MODELS)}, got {settings.kind!r}")
    if not settings.strength > 0:
        raise ValueError(f"strength must be > 0, got {settings.strength}")
    if not 0 <= settings.discount < 1:
        raise ValueError(f"discount must be in [0, 1), got {settings.discount}")
    if not settings.rate > 0:
        raise ValueError(f"rate must be > 0, got {settings.rate}")
    lengths = np.arange(longest_rule + 1)
    log_factorial = np.concatenate(([0.0], np.cumsum(np.log(np.arange(1, longest_rule + 1)))))
    log_poisson = lengths * math.log(settings.rate) - settings.rate - log_factorial
    log_source = -math.log(max(1, source_types))
    log_target = -math.log(max(1, target_types))
    if settings.kind == PITMAN_YOR:
        beyond = np.flatnonzero(2 * log_poisson < -_LINEAR_NATS)
        long = int(beyond[0]) if len(beyond) else longest_rule + 1
    else:
        long = int(_LINEAR_NATS / max(-log_source, -log_target, 1.0))
    discount = float(settings.discount) if settings.kind == PITMAN_YOR else 0.0
    by_length = np.zeros(longest_rule + 1, BY_LENGTH)
    by_length["poisson"] = np.exp(log_poisson)
    by_length["log_poisson"] = log_poisson
    by_length["power_source"] = np.exp(lengths * log_source)
    by_length["power_target"] = np.exp(lengths * log_target)
    counts = np.arange(_TABULATED_COUNTS, dtype=np.float64)
    powers = counts**discount
    powers[0] = 0.0
    by_count = np.zeros(_TABULATED_COUNTS, BY_COUNT)
    by_count["tables"] = np.round(powers * TABLE_UNIT).astype(np.int64)
    by_count["more_tables"][:-1] = np.diff(by_count["tables"])
    by_count["discounted"] = counts - discount * powers
    return Model(
        settings.kind == PITMAN_YOR,
        float(settings.strength),
        discount,
        by_length,
        by_count,
        log_source,
        log_target,
        long,
    )


@njit_inline
def estimate_tables(model, count):
    """Return a rule's estimated tables for `count` customers, in units of 2^-32 [Huang & Renals 2010]."""
    if count < len(model.by_count):
        return model.by_count[count]["tables"]
    return np.int64(np.float64(count) ** model.discount * TABLE_UNIT + 0.5)


@njit_inline
def more_tables(model, count):
    """Return the estimated tables that one more customer adds to a rule with `count`, in units of 2^-32."""
    if count < len(model.by_count) - 1:
        return model.by_count[count]["more_tables"]
    return estimate_tables(model, count + 1) - estimate_tables(model, count)


@njit_inline
def _compute_discounted(model, count):
    return count - model.discount * np.float64(count) ** model.discount


@njit_inline
def discounted_count(model, count):
    """Return n - d n^d, the weight of the existing tables of a rule with `count` n in its probability."""
    if count < len(model.by_count):
        return model.by_count[count]["discounted"]
    return _compute_discounted(model, count)


@njit_inline
def _new_table_mass(model, tables):
    """Return α + d T, the weight of a new table without the factor P0, given `tables` T in units of 2^-32."""
    return model.strength + model.discount * (tables * _ONE_UNIT)


@njit_inline
def probability(model, count, length, source_terminals, target_terminals, tokens, tables, total):
    """Return (numerator, denominator) of P(r | other rule uses), linear, for a rule that is not long.

    `count` is the number of customers of rule r, and `total` the number of customers of all rules. `tokens` and
    `tables` (in units of 2^-32) are the numbers of customers and tables of all rules that are as long as r. The use
    whose probability is returned must not be counted.
    """
    if model.pitman_yor:
        poisson = model.by_length[length]["poisson"]
        mass = _new_table_mass(model, tables) * poisson + discounted_count(model, count)
        return poisson * mass, tokens + model.strength
    base = model.by_length[source_terminals]["power_source"] * model.by_length[target_terminals]["power_target"]
    return count + model.strength * base, total + model.strength


@njit
def log_probability(model, count, length, source_terminals, target_terminals, tokens, tables, total):
    """Return the natural logarithm of `probability`, for rules of any length."""
    if model.pitman_yor:
        log_poisson = model.by_length[length]["log_poisson"]
        log_mass = math.log(_new_table_mass(model, tables)) + log_poisson
        if count > 0:
            log_mass = math.log(_compute_discounted(model, count) + math.exp(log_mass))
        return log_poisson + log_mass - math.log(tokens + model.strength)
    log_mass = math.log(model.strength) + source_terminals * model.log_source + target_terminals * model.log_target
    if count > 0:
        log_mass = math.log(count + math.exp(log_mass))
    return log_mass - math.log(total + model.strength)


@njit_inline
def is_long(model, length, source_terminals, target_terminals):
    """Check if a rule's linear probability may underflow, so that `log_probability` must be used."""
    if model.pitman_yor:
        return length >= model.long
    return source_terminals + target_terminals >= model.long
