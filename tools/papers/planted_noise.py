"""Measure how well scores find noise that was planted: areas under the ROC curve.

    python -m hierogram.tools.papers.planted_noise corpus.fr corpus.en --seed 2

A tenth of the pairs is spoiled. A store that knows nothing of this aligns the pairs and learns from them, from the
spoiled ones too, and with `--sound` from as many other pairs that are not spoiled. Then the drawn pairs are scored. An
area is the probability that a spoiled pair is more doubtful than one that is not; Model 1's stands beside it.
"""

from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import typer
from numpy.typing import NDArray

from hierogram.daemon.alignment.incremental import align_pending
from hierogram.daemon.corpora.ingest import ingest
from hierogram.daemon.corpora.lines import read_sentences
from hierogram.daemon.corpora.reading import Input
from hierogram.daemon.learning.learning import learn
from hierogram.daemon.progress import progress
from hierogram.daemon.scoring.learned import Learned
from hierogram.daemon.scoring.records import ScoreOptions
from hierogram.daemon.scoring.scoring import Scorer
from hierogram.samplers.alignment.bitext import read_side
from hierogram.samplers.itg.batch import make_batch
from hierogram.samplers.itg.model1 import train_model1
from hierogram.storage.store import open_store
from hierogram.tools.measures.results import temporary_folder
from hierogram.tools.papers.pruning.pairs import words_of_pair

SHUFFLED, REPLACED = "targets changed places", "a fifth of the target's words replaced"


class Planted(NamedTuple):
    """Pairs as words; which of the first ones are `spoiled`, bool[N]."""

    source: list[list[str]]
    target: list[list[str]]
    spoiled: NDArray[np.bool_]


def area(doubt: NDArray[np.float64], spoiled: NDArray[np.bool_]) -> float:
    """Return the probability that a spoiled pair is more doubtful than another one; ties count half."""
    order = np.unique(doubt, return_inverse=True)[1]
    of_spoiled = np.bincount(order[spoiled], minlength=order.max() + 1)
    others = np.bincount(order[~spoiled], minlength=order.max() + 1)
    below = np.cumsum(others) - others
    return float((of_spoiled * (below + others / 2)).sum() / (of_spoiled.sum() * others.sum()))


def plant(source: list[list[str]], target: list[list[str]], kind: str, share: float, seed: int) -> Planted:
    """Spoil a share of the pairs."""
    random = np.random.default_rng(seed)
    chosen = random.permutation(len(source))[: round(share * len(source))]
    spoiled = np.zeros(len(source), np.bool_)
    spoiled[chosen] = True
    changed = [list(words) for words in target]
    if kind == SHUFFLED:
        for one, other in zip(chosen.tolist(), np.roll(chosen, 1).tolist(), strict=True):
            changed[one] = target[other]
        return Planted(source, changed, spoiled)
    tokens = [word for words in target for word in words]
    for pair in chosen.tolist():
        words = changed[pair]
        for place in random.permutation(len(words))[: max(1, round(len(words) / 5))].tolist():
            while words[place] == target[pair][place]:
                words[place] = tokens[random.integers(len(tokens))]
    return Planted(source, changed, spoiled)


def model1_doubt(planted: Planted) -> NDArray[np.float64]:
    """Minus the mean natural log of each word's Model 1 probability given the other side, of both directions."""
    sides = [read_side(map(" ".join, side)) for side in (planted.source, planted.target)]
    batch = make_batch(sides[0].words, sides[0].offset, sides[1].words, sides[1].offset)
    model = train_model1(batch)
    found = np.zeros(len(planted.spoiled))
    for pair in range(len(planted.spoiled)):
        source, target, types = words_of_pair(batch, pair)
        forward = (model.target[types].sum(axis=0) + model.null_target[target]) / (len(source) + 1)
        backward = (model.source[types].sum(axis=1) + model.null_source[source]) / (len(target) + 1)
        found[pair] = -(np.log(forward).mean() + np.log(backward).mean())
    return found


def measure(planted: Planted, folder: Path, every: int) -> dict[str, float]:
    """Areas by score, of every `every`-th pair."""
    files = []
    for name, side in (("source", planted.source), ("target", planted.target)):
        file = folder / f"pairs.{name}"
        file.write_text("".join(f"{' '.join(words)}\n" for words in side), encoding="utf-8")
        files.append(str(file))
    number = len(planted.spoiled)
    with open_store(f"sqlite:///{folder / 'noise.db'}", create=True) as store:
        with Input(files) as given:
            # A pair that is there twice is stored twice: ids are lines.
            ingest(store, given)
        align_pending(store)
        learn(store)
        with progress("score", "pairs") as shown:
            scorer = Scorer(Learned(store, lambda *_: None), ScoreOptions())
            rows = store.pairs(limit=number)[::every]
            scores = []
            for row in rows:
                scores.append(scorer.score_stored(row))
                shown.update(len(scores), len(rows), len(scores))
    labels = planted.spoiled[[row.id - 1 for row in rows]]
    doubts = {
        "evidence": [-score.evidence for score in scores],
        "log-probability": [-score.log_probability for score in scores],
        "unseen": [score.unseen for score in scores],
        "target misfit": [score.target_misfit.odds if score.target_misfit else 0.0 for score in scores],
        "Model 1": model1_doubt(planted)[[row.id - 1 for row in rows]].tolist(),
    }
    return {name: area(np.array(doubt), labels) for name, doubt in doubts.items()}


def main(
    source: Annotated[str, typer.Argument(metavar="SRC", help="Source sentences, one a line.")],
    target: Annotated[str, typer.Argument(metavar="TGT", help="Their translations, line for line.")],
    pairs: Annotated[int, typer.Option(min=100, help="Pairs, a tenth of which is spoiled.")] = 5_000,
    sound: Annotated[int, typer.Option(min=0, help="More pairs in the store, which are not spoiled.")] = 0,
    every: Annotated[int, typer.Option(min=1, help="Score every n-th pair.")] = 1,
    seed: Annotated[int, typer.Option(help="Seed of what is drawn and spoiled.")] = 1,
) -> None:
    """Measure, and print a table."""
    texts = [[line.split() for line in read_sentences(name)] for name in (source, target)]
    chosen = np.random.default_rng(seed).permutation(len(texts[0]))[: pairs + sound].tolist()
    drawn = [[side[pair] for pair in chosen] for side in texts]
    headed = False
    for kind in (SHUFFLED, REPLACED):
        planted = plant(drawn[0][:pairs], drawn[1][:pairs], kind, 0.1, seed)
        whole = planted._replace(source=planted.source + drawn[0][pairs:], target=planted.target + drawn[1][pairs:])
        with temporary_folder() as folder:
            areas = measure(whole, folder, every)
        if not headed:
            print("spoiled by", *areas, sep="\t")
        headed = True
        print(kind, *(f"{value:.3f}" for value in areas.values()), sep="\t", flush=True)


if __name__ == "__main__":
    typer.run(main)
