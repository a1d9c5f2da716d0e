"""Compare scores of pairs that are cut in pieces with those of whole charts: how much lower the bound is.

    python -m hierogram.tools.lab.papers.cut_scores sqlite:///news.db --pairs 100

Stored pairs that a scorer cuts are scored twice: cut in pieces of up to `--exact` word pairs, as `hierogram score`
does, and whole. All numbers are per token.
"""

import time
from typing import Annotated

import numpy as np
import typer
from numpy.typing import NDArray

from hierogram.daemon.progress import progress
from hierogram.storage.store import open_store
from hierogram.tools.scores.learned import Learned, rows_of
from hierogram.tools.scores.scoring import EXACT_WORD_PAIRS, Scorer


def compare(database: str, pairs: int, exact: int, largest: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Score the first `pairs` stored pairs of more than `exact` word pairs, and of up to `largest`.

    Returns float64[2, N]: by how much the log-probability of the whole is higher, and its unseen share; and seconds of
    processor time for both, float64[2].
    """
    found: list[tuple[float, float]] = []
    seconds = np.zeros(2)
    with open_store(database) as store, progress("score", "pairs") as shown:
        learned = Learned(store, lambda *_: None)
        cut, whole = Scorer(learned, exact=exact), Scorer(learned, exact=largest)
        for row in rows_of(store):
            if not exact < len(row.source.split(" ")) * len(row.target.split(" ")) <= largest:
                continue
            times = [time.process_time()]
            scores = []
            for scorer in (cut, whole):
                scores.append(scorer.score_stored([row])[0].score)
                times.append(time.process_time())
            one, other = scores
            if one.exact or not other.exact:
                continue
            seconds += np.diff(times)
            found.append((other.log_probability - one.log_probability, other.unseen - one.unseen))
            shown.update(len(found), pairs, len(found))
            if len(found) == pairs:
                break
    return np.array(found).reshape(-1, 2).T, seconds


def main(
    database: Annotated[str, typer.Argument(metavar="STORE", help="URL of a store that has learned.")],
    pairs: Annotated[int, typer.Option(min=1, help="Pairs that count.")] = 100,
    exact: Annotated[int, typer.Option(min=1, help="Word pairs of the largest piece.")] = EXACT_WORD_PAIRS,
    largest: Annotated[int, typer.Option(min=1, help="Only pairs of up to n word pairs.")] = 1_600,
) -> None:
    """Score, and print a table."""
    found, seconds = compare(database, pairs, exact, largest)
    print("score", "pairs", "whole less cut, median", "mean", "95 in 100 below", "largest", sep="\t")
    for name, off in zip(("log-probability", "unseen"), found, strict=True):
        numbers = np.median(off), off.mean(), np.quantile(off, 0.95), off.max()
        print(name, len(off), *(f"{number:.5f}" for number in numbers), sep="\t")
    print(f"seconds: {seconds[0]:.1f} cut, {seconds[1]:.1f} whole")


if __name__ == "__main__":
    typer.run(main)
