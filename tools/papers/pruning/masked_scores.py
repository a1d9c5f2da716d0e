"""Compare scores from masks with those from whole charts, and their errors with the errors that they give.

    python -m hierogram.tools.papers.pruning.masked_scores sqlite:///news.db --pairs 100

Stored pairs are scored twice: by masks, as `hierogram score` does above `--above` word pairs, and exactly. Those count
that masks are used for, and whose whole chart can be made. `off` and `told` are per token, told errors are standard
errors: of those that are right, 95 in 100 pairs are off by no more than two.
"""

import time
from typing import Annotated

import numpy as np
import typer
from numpy.typing import NDArray

from hierogram.daemon.progress import progress
from hierogram.daemon.scoring.learned import Learned
from hierogram.daemon.scoring.records import ScoreOptions
from hierogram.daemon.scoring.scoring import Scorer
from hierogram.storage.store import open_store

_READ_AT_ONCE = 500


def compare(
    database: str, pairs: int, options: ScoreOptions, largest: int
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Score the first `pairs` stored pairs that count, of up to `largest` word pairs.

    Returns float64[4, N]: by how much the log-probability of masks is off, its error as printed, and likewise of the
    unseen share; and seconds of processor time for masks and for whole charts, float64[2].
    """
    found: list[tuple[float, float, float, float]] = []
    seconds, after = np.zeros(2), 0
    with open_store(database) as store, progress("score", "pairs") as shown:
        masked = Scorer(Learned(store, lambda *_: None), options)
        exact = masked.with_options(ScoreOptions(exact=largest))
        while len(found) < pairs and (rows := store.pairs(after, _READ_AT_ONCE)):
            after = rows[-1].id
            for row in rows:
                size = len(row.source.split(" ")) * len(row.target.split(" "))
                if not options.exact < size <= largest or len(found) == pairs:
                    continue
                begun = time.process_time()
                one = masked.score_stored(row)
                between = time.process_time()
                if one.exact or one.pieces > 1:
                    continue
                whole = exact.score_stored(row)
                if not whole.exact or whole.pieces > 1:
                    continue
                seconds += between - begun, time.process_time() - between
                found.append((
                    one.log_probability - whole.log_probability, one.log_probability_error or 0.0,
                    one.unseen - whole.unseen, one.unseen_error or 0.0,
                ))  # fmt: skip
                shown.update(len(found), pairs, len(found))
    return np.array(found).reshape(-1, 4).T, seconds


def put_row(name: str, off: NDArray[np.float64], told: NDArray[np.float64]) -> None:
    """One line of the table."""
    squares = np.sort(off**2)
    numbers = np.sqrt(squares.mean()), np.sqrt(squares[:-1].mean()), np.median(abs(off)), np.median(told)
    within = [float((abs(off) <= times * told).mean()) for times in (2, 4)]
    print(name, len(off), *(f"{number:.5f}" for number in numbers), *(f"{share:.2f}" for share in within), sep="\t")


def main(
    database: Annotated[str, typer.Argument(metavar="STORE", help="URL of a store that has learned.")],
    pairs: Annotated[int, typer.Option(min=2, help="Pairs that count.")] = 100,
    masks: Annotated[int, typer.Option(min=2, help="Masks a pair.")] = ScoreOptions().masks,
    above: Annotated[int, typer.Option(min=0, help="Only pairs of more word pairs.")] = ScoreOptions().exact,
    largest: Annotated[int, typer.Option(min=1, help="Only pairs of up to n word pairs.")] = 400,
) -> None:
    """Score, and print a table."""
    options = ScoreOptions(masks=masks, exact=above)
    (off, told, unseen_off, unseen_told), seconds = compare(database, pairs, options, largest)
    print("score", "pairs", "off, root mean square", "without the worst pair", "median off", "median told",
          "off by two told at most", "by four", sep="\t")  # fmt: skip
    put_row("log-probability", off, told)
    put_row("unseen", unseen_off, unseen_told)
    print(f"seconds: {seconds[0]:.1f} of masks, {seconds[1]:.1f} of whole charts")


if __name__ == "__main__":
    typer.run(main)
