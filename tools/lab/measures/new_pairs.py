"""Measure the time of a daemon from a posted pair to a translation that uses it.

    python -m hierogram.tools.lab.measures.new_pairs store.db --pairs 8 --pause 8

Each pair has a new word on each side. The daemon has a copy of the store, and samples and translates at the same time.
"""

import random
import sqlite3
import time
from contextlib import closing
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from hierogram.storage.store import open_store
from hierogram.tools.lab.measures.results import post, serving, temporary_folder

_TIMEOUT_SECONDS = 300.0
_POLL_SECONDS = 0.1


def seconds_to_translation(url: str, texts: tuple[str, str], words: tuple[str, str]) -> float:
    """Post texts that end in new words. Returns the seconds until the source word is translated.

    Raises `TimeoutError`.
    """
    started = time.monotonic()
    source, target = (f"{text} {word}" for text, word in zip(texts, words, strict=True))
    post(url, "/v1/pairs", {"source": source, "target": target})
    while time.monotonic() - started < _TIMEOUT_SECONDS:
        if words[1] in post(url, "/v1/translate", {"sentences": [words[0]]})["sentences"][0]["translation"]:
            return time.monotonic() - started
        time.sleep(_POLL_SECONDS)
    raise TimeoutError(f"{words[0]} was not translated within {_TIMEOUT_SECONDS:g} s")


def main(
    store: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="A learned SQLite store.")],
    pairs: Annotated[int, typer.Option(min=1, help="Number of pairs to post.")] = 8,
    pause: Annotated[float, typer.Option(min=0, help="Seconds before each posted pair, spent on translation.")] = 8.0,
    seed: Annotated[int, typer.Option(help="Seed of the new words.")] = 1,
) -> None:
    """Print the seconds from each posted pair to a translation that uses it, their median and maximum."""
    rng = random.Random(seed)
    with temporary_folder() as folder:
        with closing(sqlite3.connect(store)) as original, closing(sqlite3.connect(folder / "store.db")) as copied:
            original.backup(copied)
        with open_store(f"sqlite:///{folder}/store.db") as copy:
            pair_texts = [(row.source, row.target) for row in copy.pairs(limit=100) if row.source and row.target]
        with serving("[http]\nport = 0\n", "--store", "sqlite:///store.db", folder=folder) as url:
            post(url, "/v1/translate", {"sentences": ["a"]})
            times = []
            for number in range(pairs):
                until = time.monotonic() + pause
                while time.monotonic() < until:
                    post(url, "/v1/translate", {"sentences": [rng.choice(pair_texts)[0]]})
                    time.sleep(5 * _POLL_SECONDS)
                letters = "".join(rng.choice("bcdfghjklm") for _ in range(6))
                words = f"source{letters}{number}", f"target{letters}{number}"
                times.append(seconds_to_translation(url, rng.choice(pair_texts), words))
                print(f"pair {number + 1}: translated after {times[-1]:.1f} s", flush=True)
    print(f"median {np.median(times):.1f} s, maximum {max(times):.1f} s")


if __name__ == "__main__":
    typer.run(main)
