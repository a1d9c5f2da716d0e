"""Features of rules by the names of exports, all logarithms natural, whatever the format that they were read from."""

import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from hierogram.daemon.exports.formats.cdec import NAMES
from hierogram.daemon.exports.formats.features import BY_NAME

Change = Callable[[NDArray[np.float64]], NDArray[np.float64]]

_LOGARITHMIC = (*(name for name, feature in BY_NAME.items() if feature.probability), "count")
_CANONICAL = {exported: name for name, exported in NAMES.items()} | {"IsGlue": "glue"}
_LEAST = 1e-100
"""A probability of 0 is taken for this one."""
DROPPED = "glue"
"""0 in every rule of an export; decoding counts glue itself."""


def _same(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return values


def _from_log10(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return values * math.log(10.0)


def _negated(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return -values


def _log(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.log(np.maximum(values, _LEAST))


def changes_of(format: str, names: Sequence[str]) -> list[tuple[str, Change]]:
    """What the values of a format are called here, and how they become what they are here."""
    logarithms: dict[str, Change] = {"cdec": _from_log10, "thrax": _negated, "joshua": _negated}
    changed = logarithms.get(format, _log)
    found = []
    for name in names:
        canonical = _CANONICAL.get(name, name)
        found.append((canonical, changed if canonical in _LOGARITHMIC else _same))
    return found
