"""Measure the calibration of decoded links: their probabilities against the share of correct links.

    python -m hierogram.tools.lab.reliability gold-en-fr-hansards gold-es-en-collins200+europarl-es-en-5k

Sure and possible manual links are correct. Only pairs with manual links are measured.
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


class Bin(NamedTuple):
    """Links in a range of probabilities: number, mean probability, and share of correct links."""

    links: int
    probability: float
    share: float


def judge(
    aligned: Iterable[Sequence[tuple[int, int, float]]], gold: Iterable[GoldLinks]
) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return the probabilities of decoded links, float64[L], and a mask of correct links, bool[L]."""
    rows = [
        (probability, (i, j) in manual.possible)
        for links, manual in zip(aligned, gold, strict=False)
        for i, j, probability in links
    ]
    probabilities, is_correct = np.array(rows, np.float64).reshape(-1, 2).T
    return probabilities, is_correct > 0


def make_bins(probabilities: NDArray[np.float64], is_correct: NDArray[np.bool_]) -> list[Bin]:
    """Return the bins of width 0.1, by ascending probability, except empty bins."""
    number = np.minimum((probabilities * BINS).astype(np.int64), BINS - 1)
    chosen = (np.flatnonzero(number == k) for k in range(BINS))
    return [
        Bin(len(rows), float(probabilities[rows].mean()), float(is_correct[rows].mean()))
        for rows in chosen
        if len(rows)
    ]


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
        bins = make_bins(*judge(align(source, target, AlignOptions(seed=seed)), read_gold(corpus.gold)))
        print(f"{corpus.name}: {sum(one.links for one in bins):,} links")
        rows = ((f"{one.links:,}", f"{one.probability:.3f}", f"{one.share:.3f}") for one in bins)
        print(markdown_table(("links", "mean probability", "share of correct links"), rows))


if __name__ == "__main__":
    typer.run(main)
