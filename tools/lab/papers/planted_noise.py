"""Measure the detection of planted noise by scores: areas under the ROC curve.

    python -m hierogram.tools.lab.papers.planted_noise corpus.fr corpus.en --other corpus.zh --seed 2

Pairs are drawn from a corpus, and up to `--each` pairs are corrupted in each way. The target is replaced by a sentence
of another language, junk, its first third, the target of another pair, or a copy of the source; the sides are swapped;
numbers are changed; an English negation is added or removed; or a fifth of the target words (at least one) are replaced
by words of the corpus. A store aligns, learns and scores all pairs. The area is the probability that a corrupted pair
is more doubtful than an intact pair.
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
from hierogram.storage.store import open_store
from hierogram.tools.lab.measures.results import temporary_folder
from hierogram.tools.scores.learned_counts import LearnedCounts
from hierogram.tools.scores.scoring import BATCH_SIZE, Scorer

OTHER, JUNK, CUT, SHIFTED, SWAPPED, COPIED, NUMBERS, NEGATED, REPLACED = NOISES = (
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
MOST_NOISES = "all except the last two"
_MIN_WORDS = 4
_NEGATIONS = frozenset(["not", "n't", "never", "don't", "doesn't", "didn't", "can't", "won't", "isn't"])
_VERBS = frozenset(["is", "are", "was", "were", "do", "does", "did", "can", "will", "would", "have", "has", "had"])
_JUNK = ("http", ":", "/", "|", "&nbsp;", "<br", "/>", "#", "%", "www", "==", "»", "...", "[", "]", "1", "x", "@")


class NoisyPairs(NamedTuple):
    """Pairs of word lists. `noise` int64[pairs] is an index of `NOISES`, or -1 if the pair is intact."""

    source: list[list[str]]
    target: list[list[str]]
    noise: NDArray[np.int64]


def area(doubt: NDArray[np.float64], corrupted: NDArray[np.bool_]) -> float:
    """Return the area under the ROC curve: P(a corrupted pair is more doubtful than an intact pair)."""
    order = np.unique(doubt, return_inverse=True)[1]
    corrupted_counts = np.bincount(order[corrupted], minlength=order.max() + 1)
    intact_counts = np.bincount(order[~corrupted], minlength=order.max() + 1)
    below = np.cumsum(intact_counts) - intact_counts
    return float(
        (corrupted_counts * (below + intact_counts / 2)).sum() / (corrupted_counts.sum() * intact_counts.sum())
    )


def add_noise(
    source: list[list[str]], target: list[list[str]], foreign: list[list[str]], each: int, seed: int
) -> NoisyPairs:
    """Corrupt up to `each` pairs in each way, a pair in one way. `foreign` is text of another language."""
    rng = np.random.default_rng(seed)
    noise_of_pair = np.full(len(source), -1)
    sources, targets = [list(words) for words in source], [list(words) for words in target]
    tokens = [word for words in target for word in words]
    # Assign corruptions that are possible in few pairs first, so that enough pairs are left for them.
    for noise in (NUMBERS, NEGATED, CUT, SHIFTED, SWAPPED, COPIED, JUNK, REPLACED, *([OTHER] if foreign else [])):
        chosen = [
            pair
            for pair in rng.permutation(len(source)).tolist()
            if noise_of_pair[pair] < 0
            and _corrupt_target(noise, source[pair], target[pair], tokens, np.random.default_rng(1)) is not None
        ][:each]
        noise_of_pair[chosen] = NOISES.index(noise)
        for number, pair in enumerate(chosen):
            if noise == SWAPPED:
                sources[pair], targets[pair] = target[pair], source[pair]
            elif noise == SHIFTED:
                targets[pair] = list(target[chosen[number - 1]])
            elif noise == OTHER:
                targets[pair] = list(foreign[int(rng.integers(len(foreign)))])
            else:
                targets[pair] = _corrupt_target(noise, source[pair], target[pair], tokens, rng) or []
    return NoisyPairs(sources, targets, noise_of_pair)


def _corrupt_target(
    noise: str, source: list[str], target: list[str], tokens: list[str], rng: np.random.Generator
) -> list[str] | None:
    """Return the corrupted target, or None if impossible. `SWAPPED`, `SHIFTED` and `OTHER` change nothing."""
    words = list(target)
    if noise == CUT:
        return words[: max(1, len(words) // 3)] if len(words) >= _MIN_WORDS else None
    if noise == COPIED:
        return list(source)
    if noise == JUNK:
        return [_JUNK[k] for k in rng.integers(len(_JUNK), size=len(words))]
    if noise == NUMBERS:
        positions = [position for position, word in enumerate(words) if any(map(str.isdigit, word))]
        for position in positions:
            while words[position] == target[position]:
                words[position] = "".join(str(rng.integers(10)) if c.isdigit() else c for c in target[position])
        return words if positions else None
    if noise == NEGATED:
        without = [word for word in words if word.lower() not in _NEGATIONS]
        if len(without) < len(words):
            return without or None
        positions = [position for position, word in enumerate(words) if word.lower() in _VERBS]
        return [*words[: positions[0] + 1], "not", *words[positions[0] + 1 :]] if positions else None
    if noise == REPLACED:
        for position in rng.permutation(len(words))[: max(1, round(len(words) / 5))].tolist():
            while words[position] == target[position]:
                words[position] = tokens[rng.integers(len(tokens))]
    return words


def learn_store(pairs: NoisyPairs, folder: Path) -> str:
    """Create a store in a folder, and align and learn the pairs. Returns its URL."""
    files = []
    for name, side in (("source", pairs.source), ("target", pairs.target)):
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
                scores += [score for score, _ in scorer.score_stored(rows[begin : begin + BATCH_SIZE])]
                bar.update(len(scores), number, len(scores))
    columns = {
        "doubt": [score.doubt for score in scores],
        "evidence": [-score.evidence for score in scores],
        "target misfit": [score.target_misfit.log_odds if score.target_misfit else 0.0 for score in scores],
    }
    return {name: np.array(column) for name, column in columns.items()}


def areas(doubts: dict[str, NDArray[np.float64]], noise: NDArray[np.int64]) -> dict[str, list[float]]:
    """Return the ROC area of each score, by noise and for all noises except the last two."""
    areas_by_noise = {}
    corrupted = [(name, noise == number) for number, name in enumerate(NOISES)]
    for name, is_corrupted in [*corrupted, (MOST_NOISES, (noise >= 0) & (noise < NOISES.index(NEGATED)))]:
        if is_corrupted.any():
            compared = is_corrupted | (noise < 0)
            areas_by_noise[name] = [area(doubt[compared], is_corrupted[compared]) for doubt in doubts.values()]
    return areas_by_noise


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
    noisy = add_noise(sources, targets, foreign, each, seed)
    with temporary_folder() as folder:
        doubts = score_doubts(learn_store(noisy, folder), len(noisy.noise))
    print("ROC area by corruption", *doubts, sep="\t")
    for noise, values in areas(doubts, noisy.noise).items():
        print(noise, *(f"{value:.3f}" for value in values), sep="\t", flush=True)


if __name__ == "__main__":
    typer.run(main)
