"""Weights of features: a small TOML file, which `translate` reads and `tune` writes.

[weights]
p_target_given_source = 0.3
lm = 0.5
"""

import math
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from hierogram.daemon.exceptions import InputError
from hierogram.samplers.decoding import grammar
from hierogram.samplers.decoding.grammar import COUNTED

WORDS = COUNTED[grammar.WORDS]
"""The feature that counts target words."""

DEFAULT_WEIGHTS: Mapping[str, float] = {
    "p_target_given_source": 0.25,
    "p_source_given_target": 0.2,
    "lex_target_given_source": 0.15,
    "lex_source_given_target": 0.1,
    "lm": 0.35,
    "words": 1.0,
    "rules": 0.0,
    "glue": -0.1,
    "unknown": -5.0,
    "lm_unknown": -1.0,
}
"""What features weigh where nobody has tuned them; those that are not named weigh nothing."""


def read_weights(path: str) -> dict[str, float]:
    """Return the table `weights` of a TOML file; raises `InputError`."""
    try:
        with open(path, "rb") as file:
            content = tomllib.load(file)
    except (OSError, tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read as TOML: {error}") from error
    weights = content.get("weights")
    if not isinstance(weights, dict) or not weights:
        raise InputError(f"{path}: has no table [weights]")
    for name, value in weights.items():
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            raise InputError(f"{path}: the weight of {name} is {value!r}: it has to be a number")
    return {name: float(value) for name, value in weights.items()}


def write_weights(path: Path, weights: Mapping[str, float]) -> None:
    """Write a file that `read_weights` reads, which appears when it is whole."""
    from hierogram.daemon.compressing import written

    lines = ["[weights]", *(f"{_key(name)} = {value!r}" for name, value in weights.items())]
    with written(path) as file:
        file.write("".join(line + "\n" for line in lines).encode())


def _key(name: str) -> str:
    plain = name.isascii() and all(letter.isalnum() or letter in "_-" for letter in name)
    return name if plain and name else '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'


def weight_vector(features: Iterable[str], weights: Mapping[str, float]) -> NDArray[np.float64]:
    """Weights in the order of a grammar's features, then of those that decoding counts; 0 where none is given."""
    return np.array([float(weights.get(name, 0.0)) for name in (*features, *COUNTED)])


def unused_weights(features: Iterable[str], weights: Mapping[str, float]) -> list[str]:
    """Return names that weigh something and that neither the grammar nor decoding has."""
    known = {*features, *COUNTED}
    return sorted(name for name, value in weights.items() if name not in known and value)
