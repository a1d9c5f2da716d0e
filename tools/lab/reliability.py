"""Measure the calibration of decoded links: their probabilities against the share of correct links.

    python -m hierogram.tools.lab.reliability gold-en-fr-hansards gold-es-en-collins200+europarl-es-en-5k

Two columns report the share of correct links: one counts sure or possible manual links as correct, the other only sure
manual links. The calibration error is the mean absolute difference between probability and share of correct links, over
bins of width 0.1 that are weighted by their links.
"""

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Annotated, NamedTuple

import numpy as np
import typer
from numpy.typing import NDArray

from hierogram.daemon.exceptions import InputError
from hierogram.daemon.learning.alignment.aligning import align
from hierogram.daemon.learning.alignment.options import AlignOptions
from hierogram.daemon.text.lines import read_sentences
from hierogram.tools.alignment_scores import GoldLinks, read_gold
from hierogram.tools.lab.compare_aligners import parse_corpus_files
from hierogram.tools.lab.measures.results import markdown_table

BINS = 10


class DecodedLinks(NamedTuple):
    """Probabilities of decoded links, with masks of sure links, and of sure or possible links."""

    probabilities: NDArray[np.float64]
    sure: NDArray[np.bool_]
    possible: NDArray[np.bool_]


class Bin(NamedTuple):
    """Links in a range of probabilities: number, mean probability, and share of correct links."""

    links: int
    probability: float
    share: float


def judge(aligned: Iterable[Sequence[tuple[int, int, float]]], gold: Iterable[GoldLinks]) -> DecodedLinks:
    """Return the decoded links of the pairs with manual links, which are the first pairs."""
    rows = [
        (probability, (i, j) in right.sure, (i, j) in right.possible)
        for links, right in zip(aligned, gold, strict=False)
        for i, j, probability in links
    ]
    columns = np.array(rows, np.float64).reshape(-1, 3).T
    return DecodedLinks(columns[0], columns[1] > 0, columns[2] > 0)


def make_bins(probabilities: NDArray[np.float64], right: NDArray[np.bool_]) -> list[Bin]:
    """Return the nonempty bins, by ascending probability. `right` bool[L] marks correct links."""
    number = np.minimum((probabilities * BINS).astype(np.int64), BINS - 1)
    chosen = (np.flatnonzero(number == k) for k in range(BINS))
    return [
        Bin(len(rows), float(probabilities[rows].mean()), float(right[rows].mean())) for rows in chosen if len(rows)
    ]


def calibration_error(bins: Sequence[Bin]) -> float:
    """Return the calibration error, or 0 without links."""
    links = sum(bucket.links for bucket in bins)
    return sum(bucket.links * abs(bucket.probability - bucket.share) for bucket in bins) / max(links, 1)


def main(
    folders: Annotated[
        list[str], typer.Argument(help="Folders with manual links; FOLDER+FOLDER adds another folder's corpus.")
    ],
    seed: Annotated[int, typer.Option(help="Seed of the aligner.")] = 1,
) -> None:
    """Measure the calibration of the probabilities of decoded links."""
    for names in folders:
        corpus = parse_corpus_files(names)
        if corpus.gold is None:
            raise InputError(f"{names}: no manual links: add gold.talp to the first folder")
        source, target = (chain.from_iterable(map(read_sentences, paths)) for paths in (corpus.source, corpus.target))
        judged = judge(align(source, target, AlignOptions(seed=seed)), read_gold(corpus.gold))
        bins = [make_bins(judged.probabilities, right) for right in (judged.possible, judged.sure)]
        possible, sure = map(calibration_error, bins)
        print(
            f"{corpus.name}: {len(judged.sure):,} links, "
            f"calibration error {possible:.3f} (sure or possible), {sure:.3f} (sure)"
        )
        rows = (
            (f"{one.links:,}", f"{one.probability:.3f}", f"{one.share:.3f}", f"{other.share:.3f}")
            for one, other in zip(*bins, strict=True)
        )
        print(markdown_table(("links", "mean probability", "share sure or possible", "share sure"), rows))


if __name__ == "__main__":
    typer.run(main)
