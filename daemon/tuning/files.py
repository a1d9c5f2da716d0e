"""Tuned weights as a TOML file: what `translate` reads, and beside it how they were found."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hierogram.daemon.compressing import written
from hierogram.daemon.plain_options import all_plain
from hierogram.daemon.tuning.options import TuningOptions
from hierogram.daemon.tuning.tuning import Iteration, Tuned


def write_tuned(
    path: Path,
    tuned: Tuned,
    by_name: Callable[[NDArray[np.float64]], Mapping[str, float]],
    options: TuningOptions,
    inputs: Mapping[str, Any],
) -> None:
    """Write weights, scores of the rounds, options and names of inputs; raises `ExportError`.

    `[weights]` are those of the best round, which `best_round` names (1: the starting weights); each `[[rounds]]` has
    the BLEU that its own weights gave, the ratio of words to those of the references, and the number of new candidates.
    """
    lines = [
        *_table("[weights]", by_name(tuned.weights)),
        *_table("[tuning]", {**inputs, **all_plain(options), "best_round": tuned.best + 1}),
    ]
    for iteration in tuned.history:
        lines += _table("[[rounds]]", as_plain(iteration))
        lines += _table("[rounds.weights]", by_name(iteration.weights))
    with written(path) as file:
        file.write("\n".join(lines[:-1]).encode() + b"\n")


def as_plain(iteration: Iteration) -> dict[str, Any]:
    """A round's scores, without its weights."""
    return {
        "bleu": round(iteration.bleu.score, 4),
        "ratio": round(iteration.bleu.ratio, 4),
        "candidates": iteration.new,
    }


def _table(title: str, values: Mapping[str, Any]) -> list[str]:
    entries = (f"{_key(name)} = {_plain(value)}" for name, value in values.items() if value is not None)
    return [title, *entries, ""]


def _plain(value: Any) -> str:
    """A number, a text or a list: those of JSON are those of TOML."""
    return json.dumps(value, ensure_ascii=False)


def _key(name: str) -> str:
    plain = name.isascii() and all(letter.isalnum() or letter in "_-" for letter in name)
    return name if plain and name else _plain(name)
