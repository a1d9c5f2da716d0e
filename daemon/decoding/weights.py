"""Weights of features: a small TOML file, which `translate` reads and `tune` writes.

[weights]
p_target_given_source = 0.3
lm = 0.5
"""

import json
import math
import tomllib
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

from hierogram.daemon.compressing import written
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
"""Weights where nobody has tuned them; features that are not named weigh nothing."""


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
    with written(path) as file:
        file.write("\n".join(toml_table("[weights]", weights)).encode())


def toml_table(title: str, values: Mapping[str, Any]) -> list[str]:
    """Return the lines of a table, the last one empty: numbers, texts and lists; what is None is left out."""
    lines = [title]
    for name, value in values.items():
        plain = name.isascii() and name.replace("_", "").replace("-", "").isalnum()
        if value is not None:
            # Texts, numbers and lists of JSON are those of TOML.
            lines.append(f"{name if plain else _json(name)} = {_json(value)}")
    return [*lines, ""]


_json = partial(json.dumps, ensure_ascii=False)
