"""Compare scores of pairs cut in pieces with scores of whole charts. The former are lower bounds of the latter.

    python -m hierogram.tools.lab.papers.cut_scores sqlite:///news.db --pairs 100

Long stored pairs are scored twice: cut in pieces of up to `--exact` word pairs, as by `hierogram score`, and whole. All
numbers are per token.
"""

import time
from typing import Annotated

import numpy as np
import typer
from numpy.typing import NDArray

from hierogram.daemon.progress import progress
from hierogram.storage.store import open_store
from hierogram.tools.scores.learned_counts import LearnedCounts, iterate_rows
from hierogram.tools.scores.scoring import EXACT_WORD_PAIRS, Scorer


def compare(database: str, pairs: int, exact: int, largest: int) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Score the first `pairs` stored pairs of more than `exact` and up to `largest` word pairs.

    Returns the increase of log-probability and unseen share by whole charts, float64[2, N], and processor seconds of
    both.
    """
    score_pairs: list[tuple[float, float]] = []
    seconds = np.zeros(2)
    with open_store(database) as store, progress("score", "pairs") as bar:
        learned = LearnedCounts(store, lambda *_: None)
        cut, exact_scorer = Scorer(learned, exact=exact), Scorer(learned, exact=largest)
        for row in iterate_rows(store):
            if not exact < len(row.source.split(" ")) * len(row.target.split(" ")) <= largest:
                continue
            times = [time.process_time()]
            scores = []
            for scorer in (cut, exact_scorer):
                scores.append(scorer.score_stored([row])[0].score)
                times.append(time.process_time())
            cut_score, exact_score = scores
            if cut_score.exact or not exact_score.exact:
                continue
            seconds += np.diff(times)
            score_pairs.append(
                (exact_score.log_probability - cut_score.log_probability, exact_score.unseen - cut_score.unseen)
            )
            bar.update(len(score_pairs), pairs, len(score_pairs))
            if len(score_pairs) == pairs:
                break
    return np.array(score_pairs).reshape(-1, 2).T, seconds


def main(
    database: Annotated[str, typer.Argument(metavar="STORE", help="URL of a learned store.")],
    pairs: Annotated[int, typer.Option(min=1, help="Number of pairs to compare.")] = 100,
    exact: Annotated[int, typer.Option(min=1, help="Maximum number of word pairs of a piece.")] = EXACT_WORD_PAIRS,
    largest: Annotated[int, typer.Option(min=1, help="Use only pairs of up to N word pairs.")] = 1_600,
) -> None:
    """Score, and print a table."""
    score_pairs, seconds = compare(database, pairs, exact, largest)
    print("score", "pairs", "whole minus cut: median", "mean", "95 % quantile", "maximum", sep="\t")
    for name, off in zip(("log-probability", "unseen"), score_pairs, strict=True):
        numbers = np.median(off), off.mean(), np.quantile(off, 0.95), off.max()
        print(name, len(off), *(f"{number:.5f}" for number in numbers), sep="\t")
    print(f"seconds: {seconds[0]:.1f} cut, {seconds[1]:.1f} whole")


if __name__ == "__main__":
    typer.run(main)
