"""Measure how far probabilities of links can be believed: those that the service gives, beside manual links.

    python -m hierogram.tools.lab.reliability gold-fr-en-alibi gold-es-en-collins200+europarl-es-en-5k --plot curves.png

Half of the pairs with manual links, 200 at most, are left out of the store that the aligner learns from, and are
aligned as `POST /v1/align` aligns. Links that are only possible in the manual ones count as neither right nor wrong.
"""

import json
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import numpy as np
import typer
from numpy.typing import NDArray

from hierogram.daemon.learning.alignment.answering import AnsweringAligner
from hierogram.daemon.learning.alignment.incremental import align_pending
from hierogram.storage.records import Settings
from hierogram.storage.store import open_store
from hierogram.tools.lab.compare_aligners import corpus_of
from hierogram.tools.lab.incremental_alignment import LONGEST, put_pairs, read_corpus
from hierogram.tools.lab.measures.results import drawn

BINS = 10
_MOST_LEFT_OUT = 200
_NEGLIGIBLE = 0.005


@dataclass(frozen=True, slots=True)
class Reliability:
    """One corpus. `error` is the expected calibration error: the mean of |probability - right|, links weighted.

    Of the links whose probability is in one tenth, `bins` have their number `links`, the mean `probability`, and the
    share that is `right`.
    """

    corpus: str
    pairs: int
    links: int
    error: float
    bins: list[dict[str, float]]


def reliability_of(corpus: str, probability: NDArray[np.float64], right: NDArray[np.bool_], pairs: int) -> Reliability:
    """Probabilities in tenths beside what is right."""
    tenth = np.minimum((probability * BINS).astype(np.int64), BINS - 1)
    bins = [
        {"links": int(here.sum()), "probability": float(probability[here].mean()), "right": float(right[here].mean())}
        for k in range(BINS)
        if (here := tenth == k).any()
    ]
    error = sum(b["links"] * abs(b["probability"] - b["right"]) for b in bins) / max(len(probability), 1)
    return Reliability(corpus, pairs, len(probability), error, bins)


def measure(folders: str, threads: int) -> Reliability:
    """Learn from a part of the corpus, align the rest, compare."""
    corpus = corpus_of(folders)
    sources, targets, gold = read_corpus(corpus)
    kept = len(sources) - min(len(gold) // 2, _MOST_LEFT_OUT)
    with tempfile.TemporaryDirectory() as folder:
        url = f"sqlite:///{folder}/store.db"
        with open_store(url, create=True, settings=Settings(max_tokens=LONGEST)) as store:
            put_pairs(store, sources, targets, 0, kept)
            align_pending(store, threads)
            _, found = AnsweringAligner(store).answer(list(zip(sources[kept:], targets[kept:], strict=True)))
    probability: list[float] = []
    right: list[bool] = []
    for answered, manual in zip(found, gold[len(gold) - len(found) :], strict=True):
        posterior = answered.posterior
        for s, t in np.argwhere(posterior >= _NEGLIGIBLE).tolist():
            sure = (s, t) in manual.sure
            if sure or (s, t) not in manual.possible:
                probability.append(float(posterior[s, t]))
                right.append(sure)
    return reliability_of(corpus.name, np.array(probability), np.array(right, np.bool_), len(found))


def draw(rows: list[Reliability], path: Path) -> None:
    """Return the curves, with the diagonal of perfect calibration."""
    with drawn(path, size=(5, 5)) as panel:
        panel.plot([0, 1], [0, 1], color="gray", linestyle=":", linewidth=1)
        for row in rows:
            points = ([b[name] for b in row.bins] for name in ("probability", "right"))
            panel.plot(*points, marker="o", label=row.corpus)
        panel.set_xlabel("probability of a link")
        panel.set_ylabel("share that is right")
        panel.legend(fontsize="small")


def reliability(
    corpora: Annotated[
        list[str], typer.Argument(metavar="FOLDER...", help="Folders with manual links; FOLDER+FOLDER joins two.")
    ],
    threads: Annotated[int, typer.Option(min=1, help="Threads of the aligner.")] = 2,
    plot: Annotated[Path | None, typer.Option(help="Picture to write, as PNG.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Write JSON for programs.")] = False,
) -> None:
    """Compare probabilities of links with how often such links are right."""
    rows = []
    for folders in corpora:
        rows.append(measure(folders, threads))
        row = rows[-1]
        if not as_json:
            print(f"{row.corpus}: {row.pairs} pairs, {row.links:,} links, calibration error {row.error:.4f}")
            for b in row.bins:
                print("  {probability:.3f}  {right:.3f}  {links:>7,}".format(**b), flush=True)
    if plot is not None:
        draw(rows, plot)
    if as_json:
        print(json.dumps([asdict(row) for row in rows], indent=2))


if __name__ == "__main__":
    typer.run(reliability)
