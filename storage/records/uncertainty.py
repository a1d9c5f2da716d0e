"""Standard errors of the expected uses of rules.

Errors of the pairs that use a rule are not independent: a rule is more probable in each pair if other pairs use it. So
chains differ by whole groups of pairs, for hundreds of sweeps. The squared standard error of U expected uses is the sum
V of the variances of the pairs, `expected_uses_variance`, plus the group variance (a U² + b V²) / (1 + U / G), as if
the pairs changed in groups of G uses. docs/model.md has the measurement of a, b and G.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

GROUP_VARIANCE = 0.018
"""Coefficient a: weight of U² in the group variance."""
GROUP_CORRELATION = 1.0
"""Coefficient b: weight of V² in the group variance."""
GROUP_USES = 15.0
"""Coefficient G: number of expected uses that change together."""


def squared_error_sql(uses: str, variance: str) -> str:
    """Return the SQL expression of the squared standard error, given the expressions of U and V."""
    group = f"({GROUP_VARIANCE} * {uses} * {uses} + {GROUP_CORRELATION} * {variance} * {variance})"
    return f"({variance} + {group} / (1.0 + {uses} / {GROUP_USES}))"


def standard_error_sql(rule: str = "") -> str:
    """Return the SQL expression of a rule's standard error. `rule` is the table's alias with a period."""
    return f"sqrt({squared_error_sql(f'{rule}expected_uses', f'{rule}expected_uses_variance')})"


def squared_errors(uses: "NDArray[np.float64]", variances: "NDArray[np.float64]") -> "NDArray[np.float64]":
    """Return the squared standard errors float64[n] of rules, given their U and V."""
    group = GROUP_VARIANCE * uses * uses + GROUP_CORRELATION * variances * variances
    return variances + group / (1.0 + uses / GROUP_USES)


def standard_errors(uses: "NDArray[np.float64]", variances: "NDArray[np.float64]") -> "NDArray[np.float64]":
    """Return the standard errors float64[n] of rules, given their U and V."""
    errors: NDArray[np.float64] = squared_errors(uses, variances) ** 0.5
    return errors
