"""Measure the detection of planted noise by scores: areas under the ROC curve.

    python -m hierogram.tools.lab.papers.planted_noise corpus.fr corpus.en --other corpus.zh --seed 2

Pairs are drawn from a corpus, and up to `--each` pairs are corrupted in each way. The target is replaced by a sentence
of another language, junk, its first third, the target of another pair, or a copy of the source; the sides are swapped;
numbers are changed; an English negation is added or removed; or a fifth of the target words (at least one) are replaced
by words of the corpus. A store aligns, learns and scores all pairs. The area is the probability that a corrupted pair
is more doubtful than an intact pair. IBM Model 1, trained on the same pairs, is the baseline.
"""

from pathlib import Path
from typing import Annotated, NamedTuple

import numpy as np
import typer
from numpy.typing import NDArray

from hierogram.daemon.learning.alignment.incremental import align_pending
from hierogram.daemon.learning.learning import learn
from hierogram.daemon.progress import progress
from hierogram.daemon.text.ingest import ingest
from hierogram.daemon.text.lines import read_sentences, write_lines
from hierogram.daemon.text.pair_files import PairFiles
from hierogram.samplers.alignment.models.itg import slice_pair
from hierogram.samplers.itg.model import train_model1
from hierogram.storage.store import open_store
from hierogram.tools.lab.measures.itg import make_text_batch
from hierogram.tools.lab.measures.results import temporary_folder
from hierogram.tools.scores.learned_counts import LearnedCounts
from hierogram.tools.scores.scoring import BATCH_SIZE, Scorer

OTHER, JUNK, CUT, SHIFTED, SWAPPED, COPIED, NUMBERS, NEGATED, REPLACED = KINDS = (
    "other language",
    "junk",
    "cut short",
    "targets exchanged",
    "sides swapped",
    "copied source",
    "numbers changed",
    "negation",
    "a fifth of the words replaced",
)
MOST_KINDS = "all except the last two"
_MIN_WORDS = 4
_NEGATIONS = frozenset(["not", "n't", "never", "don't", "doesn't", "didn't", "can't", "won't", "isn't"])
_VERBS = frozenset(["is", "are", "was", "were", "do", "does", "did", "can", "will", "would", "have", "has", "had"])
_JUNK = ("http", ":", "/", "|", "&nbsp;", "<br", "/>", "#", "%", "www", "==", "»", "...", "[", "]", "1", "x", "@")


class Planted(NamedTuple):
    """Pairs of word lists. `kind` is each pair's corruption, an index of `KINDS`, or -1 if intact."""

    source: list[list[str]]
    target: list[list[str]]
    kind: NDArray[np.int64]


def area(doubt: NDArray[np.float64], corrupted: NDArray[np.bool_]) -> float:
    """Return the area under the ROC curve: P(a corrupted pair is more doubtful than an intact pair)."""
    order = np.unique(doubt, return_inverse=True)[1]
    corrupted_counts = np.bincount(order[corrupted], minlength=order.max() + 1)
    intact_counts = np.bincount(order[~corrupted], minlength=order.max() + 1)
    below = np.cumsum(intact_counts) - intact_counts
    return float(
        (corrupted_counts * (below + intact_counts / 2)).sum() / (corrupted_counts.sum() * intact_counts.sum())
    )


def plant(source: list[list[str]], target: list[list[str]], foreign: list[list[str]], each: int, seed: int) -> Planted:
    """Corrupt up to `each` pairs in each way. `foreign` has sentences of another language."""
    random = np.random.default_rng(seed)
    kind = np.full(len(source), -1)
    sources, targets = [list(words) for words in source], [list(words) for words in target]
    tokens = [word for words in target for word in words]
    # Assign corruptions that are possible in few pairs first, so that enough pairs are left for them.
    for noise in (NUMBERS, NEGATED, CUT, SHIFTED, SWAPPED, COPIED, JUNK, REPLACED, *([OTHER] if foreign else [])):
        chosen = [
            pair
            for pair in random.permutation(len(source)).tolist()
            if kind[pair] < 0
            and _changed(noise, source[pair], target[pair], tokens, np.random.default_rng(1)) is not None
        ][:each]
        kind[chosen] = KINDS.index(noise)
        for number, pair in enumerate(chosen):
            if noise == SWAPPED:
                sources[pair], targets[pair] = target[pair], source[pair]
            elif noise == SHIFTED:
                targets[pair] = list(target[chosen[number - 1]])
            elif noise == OTHER:
                targets[pair] = list(foreign[int(random.integers(len(foreign)))])
            else:
                targets[pair] = _changed(noise, source[pair], target[pair], tokens, random) or []
    return Planted(sources, targets, kind)


def _changed(
    kind: str, source: list[str], target: list[str], tokens: list[str], random: np.random.Generator
) -> list[str] | None:
    """Return the corrupted target, or None if impossible. `SWAPPED`, `SHIFTED` and `OTHER` change nothing."""
    words = list(target)
    if kind == CUT:
        return words[: max(1, len(words) // 3)] if len(words) >= _MIN_WORDS else None
    if kind == COPIED:
        return list(source)
    if kind == JUNK:
        return [_JUNK[k] for k in random.integers(len(_JUNK), size=len(words))]
    if kind == NUMBERS:
        positions = [position for position, word in enumerate(words) if any(map(str.isdigit, word))]
        for position in positions:
            while words[position] == target[position]:
                words[position] = "".join(str(random.integers(10)) if c.isdigit() else c for c in target[position])
        return words if positions else None
    if kind == NEGATED:
        without = [word for word in words if word.lower() not in _NEGATIONS]
        if len(without) < len(words):
            return without or None
        positions = [position for position, word in enumerate(words) if word.lower() in _VERBS]
        return [*words[: positions[0] + 1], "not", *words[positions[0] + 1 :]] if positions else None
    if kind == REPLACED:
        for position in random.permutation(len(words))[: max(1, round(len(words) / 5))].tolist():
            while words[position] == target[position]:
                words[position] = tokens[random.integers(len(tokens))]
    return words


def model1_doubt(planted: Planted) -> NDArray[np.float64]:
    """Return the doubt of each pair under Model 1: mean -ln P(word | other side), summed over both sides."""
    batch = make_text_batch(map(" ".join, planted.source), map(" ".join, planted.target))
    model = train_model1(batch)
    doubts = np.zeros(len(planted.source))
    for pair in range(len(planted.source)):
        source, target, types = slice_pair(batch, pair)
        forward = (model.target[types].sum(axis=0) + model.null_target[target]) / (len(source) + 1)
        backward = (model.source[types].sum(axis=1) + model.null_source[source]) / (len(target) + 1)
        doubts[pair] = -(np.log(forward).mean() + np.log(backward).mean())
    return doubts


def learn_store(planted: Planted, folder: Path) -> str:
    """Make a store that learns the pairs. Returns its URL."""
    files = []
    for name, side in (("source", planted.source), ("target", planted.target)):
        files.append(str(folder / f"pairs.{name}"))
        write_lines(Path(files[-1]), map(" ".join, side))
    url = f"sqlite:///{folder / 'noise.db'}"
    with open_store(url, create=True) as store:
        with PairFiles(files) as opened:
            ingest(store, opened)
        align_pending(store)
        learn(store)
    return url


def score_doubts(url: str, number: int) -> dict[str, NDArray[np.float64]]:
    """Return scores float64[number] of a store's first pairs by name. Larger scores are more doubtful."""
    with open_store(url) as store:
        scorer = Scorer(LearnedCounts(store, lambda *_: None))
        rows = store.pairs(limit=number)
        scores = []
        with progress("score", "pairs") as bar:
            for begin in range(0, number, BATCH_SIZE):
                scores += [scored.score for scored in scorer.score_stored(rows[begin : begin + BATCH_SIZE])]
                bar.update(len(scores), number, len(scores))
    columns = {
        "doubt": [score.doubt for score in scores],
        "evidence": [-score.evidence for score in scores],
        "log-probability": [-score.log_probability for score in scores],
        "unseen": [score.unseen for score in scores],
        "target misfit": [score.target_misfit.log_odds if score.target_misfit else 0.0 for score in scores],
    }
    return {name: np.array(column) for name, column in columns.items()}


def areas(doubts: dict[str, NDArray[np.float64]], kind: NDArray[np.int64]) -> dict[str, list[float]]:
    """Return the ROC area of each score, by kind of corruption and for all kinds except the last two."""
    area_by_kind = {}
    last = KINDS.index(NEGATED)
    corrupted = [(way, kind == number) for number, way in enumerate(KINDS)]
    for way, chosen in [*corrupted, (MOST_KINDS, (kind >= 0) & (kind < last))]:
        if chosen.any():
            compared = chosen | (kind < 0)
            area_by_kind[way] = [area(doubt[compared], chosen[compared]) for doubt in doubts.values()]
    return area_by_kind


def main(
    source: Annotated[str, typer.Argument(metavar="SRC", help="Source sentences, one per line.")],
    target: Annotated[str, typer.Argument(metavar="TGT", help="Target sentences, one per line.")],
    other: Annotated[str | None, typer.Option(help="File of sentences of another language.")] = None,
    pairs: Annotated[int, typer.Option(min=100, help="Number of pairs from which corrupted pairs are drawn.")] = 5_000,
    each: Annotated[int, typer.Option(min=1, help="Maximum number of corrupted pairs of each kind.")] = 70,
    seed: Annotated[int, typer.Option(help="Seed of the selection and corruption.")] = 1,
) -> None:
    """Print the area under the ROC curve of each score, by kind of corruption."""
    texts = [[line.split() for line in read_sentences(name)] for name in (source, target)]
    chosen = np.random.default_rng(seed).permutation(len(texts[0]))[:pairs].tolist()
    foreign = [words for line in read_sentences(other) if (words := line.split())] if other else []
    sources, targets = ([side[pair] for pair in chosen] for side in texts)
    planted = plant(sources, targets, foreign, each, seed)
    with temporary_folder() as folder:
        doubts = score_doubts(learn_store(planted, folder), len(planted.kind))
    doubts["Model 1"] = model1_doubt(planted)
    print("ROC area by corruption", *doubts, sep="\t")
    for noise, values in areas(doubts, planted.kind).items():
        print(noise, *(f"{value:.3f}" for value in values), sep="\t", flush=True)


if __name__ == "__main__":
    typer.run(main)
