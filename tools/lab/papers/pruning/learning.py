"""Learn grammars by expectation maximization, with exact or with soft counts [BPK09 §3.3].

    hierogram align corpus.zh corpus.en --symmetrize union --score -o links
    python -m hierogram.tools.lab.papers.pruning.learning corpus.zh corpus.en links

An ITG is learned with whole charts, and with each number of masks per chart and iteration. The log-likelihood after
each iteration is exact. Seconds are processor time of learning.
"""

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, NamedTuple

import numpy as np
import typer
from numpy.typing import NDArray

from hierogram.samplers.alignment.models.itg import itg_rules, slice_pair
from hierogram.samplers.charts.hypergraph import inside_outside
from hierogram.samplers.charts.pairs import PairWords
from hierogram.samplers.charts.pruning.pair_charts import PairChart
from hierogram.tools.lab.measures.results import time_call
from hierogram.tools.lab.papers.pruning.pairs import (
    LARGEST,
    LinkedCorpus,
    LinksFile,
    SourceFile,
    TargetFile,
    build_whole,
    read_corpus,
)
from hierogram.tools.lab.papers.pruning.single_chain import SingleChain


def count_exactly(grammar: "LearnableItg") -> tuple[list[NDArray[np.float64]], float]:
    """Return the expected features of each pair, and the log-likelihood of all pairs, from whole charts."""
    features, likelihood = [], 0.0
    for number in range(grammar.size):
        chart = grammar.chart(number)
        scores = inside_outside(build_whole(chart))
        features.append(chart.features(scores.expected))
        likelihood += float(
            np.log(scores.total) - np.log(chart.words.source_scale).sum() - np.log(chart.words.target_scale).sum()
        )
    return features, likelihood


class SoftCounts:
    """Estimator of expected features from masks, with one chain for each pair."""

    def __init__(self, grammar: "LearnableItg", masks: int, key: int) -> None:
        self._masks = masks
        self._key = key
        self._done = 0
        self._states = [SingleChain(grammar.chart(number), number).init(key) for number in range(grammar.size)]

    def count(self, grammar: "LearnableItg") -> list[NDArray[np.float64]]:
        """Return the mean features of each pair over the next masks of its chain, under a grammar."""
        features = []
        for number in range(grammar.size):
            kernel = SingleChain(grammar.chart(number), number)
            total: NDArray[np.float64] = np.zeros(())
            for step in range(self._done + 1, self._done + self._masks + 1):
                self._states[number], [pruned] = kernel.step(self._key, self._states[number], step)
                total = total + pruned.features
            features.append(total / self._masks)
        self._done += self._masks
        return features


def run_em(grammar: "LearnableItg", iterations: int, soft: SoftCounts | None = None) -> Iterator["LearnableItg"]:
    """Yield the grammar after each iteration of expectation maximization. Counts are exact without `soft`."""
    for _ in range(iterations):
        grammar = grammar.maximized(count_exactly(grammar)[0] if soft is None else soft.count(grammar))
        yield grammar


class ItgPairs(NamedTuple):
    """Training pairs with words, types of word pairs int32[n, m], and variable links int32[V, 2]."""

    source: list[NDArray[np.int32]]
    target: list[NDArray[np.int32]]
    types: list[NDArray[np.int32]]
    links: list[NDArray[np.int32]]


@dataclass(frozen=True)
class LearnableItg:
    """ITG with probabilities of `itg_rules`, of types of word pairs, and of words without a partner."""

    data: ItgPairs
    rules: NDArray[np.float64]
    pairs: NDArray[np.float64]
    source: NDArray[np.float64]
    target: NDArray[np.float64]

    @property
    def size(self) -> int:
        """Number of training pairs."""
        return len(self.data.source)

    def chart(self, number: int) -> PairChart:
        """Return the chart of training pair `number`, which builds its charts."""
        data = self.data
        pairs = self.pairs[data.types[number]]
        source, target = self.source[data.source[number]], self.target[data.target[number]]
        scales = (1 / np.sqrt(np.maximum(pairs.max(axis=1 - k), side**2)) for k, side in enumerate((source, target)))
        words = PairWords(data.source[number], data.target[number], pairs, source, target, *scales)
        return PairChart(itg_rules(self.rules), words, data.links[number])

    def maximized(self, features: Sequence[NDArray[np.float64]]) -> "LearnableItg":
        """Return the maximum-likelihood grammar, given the expected features of each pair."""
        rules, pairs = np.zeros(len(self.rules)), np.zeros(len(self.pairs))
        source, target = np.zeros(len(self.source)), np.zeros(len(self.target))
        for number, feature in enumerate(features):
            n, m = self.data.types[number].shape
            np.add.at(pairs, self.data.types[number].ravel(), feature[: n * m])
            np.add.at(source, self.data.source[number], feature[n * m : n * m + n])
            np.add.at(target, self.data.target[number], feature[n * m + n : n * m + n + m])
            rules += feature[n * m + n + m :]
        return LearnableItg(self.data, *map(_normalize, (rules, pairs, source, target)))


def _normalize(uses: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return relative frequencies, which are uniform without uses."""
    total = float(uses.sum())
    return uses / total if total > 0 else np.full(len(uses), 1 / max(len(uses), 1))


def make_itg(corpus: LinkedCorpus, number: int) -> LearnableItg:
    """Return an initial ITG of up to `number` evenly spaced pairs.

    Each pair has at least two links and up to `LARGEST` word pairs. Kinds of rules are equally probable. Other
    probabilities are relative frequencies in these pairs. Linked word pairs count twice.
    """
    suited = np.flatnonzero(corpus.linked() & (corpus.sizes() <= LARGEST))
    chosen = suited[np.unique(np.linspace(0, len(suited) - 1, number).astype(np.int64))] if len(suited) else suited
    source, target, types = zip(*(slice_pair(corpus.batch, int(pair)) for pair in chosen), strict=True)
    data = ItgPairs(list(source), list(target), list(types), [corpus.links[pair] for pair in chosen])
    pairs = np.zeros(len(corpus.type_links))
    unlinked = np.zeros(len(corpus.source_links)), np.zeros(len(corpus.target_links))
    for k, pair_types in enumerate(data.types):
        np.add.at(pairs, pair_types.ravel(), 1)
        np.add.at(pairs, pair_types[data.links[k][:, 0], data.links[k][:, 1]], 1)
        for words, sides in zip(unlinked, (data.source, data.target), strict=True):
            np.add.at(words, sides[k], 1)
    return LearnableItg(data, np.full(5, 0.2), *map(_normalize, (pairs, *unlinked)))


def learning_curve(
    grammar: "LearnableItg", iterations: int, soft: SoftCounts | None = None
) -> Iterator[tuple[float, float]]:
    """Yield exact log-likelihood and processor seconds of learning, at the start and after each iteration."""
    spent, steps = 0.0, run_em(grammar, iterations, soft)
    for iteration in range(iterations + 1):
        if iteration:
            seconds, grammar = time_call(partial(next, steps), time.process_time)
            spent += seconds
        yield count_exactly(grammar)[1], spent


def main(
    source: SourceFile,
    target: TargetFile,
    links: LinksFile,
    pairs: Annotated[int, typer.Option(min=1, help="Number of training pairs.")] = 200,
    iterations: Annotated[int, typer.Option(min=1, help="Iterations of expectation maximization.")] = 10,
    masks: Annotated[
        str, typer.Option(help="Numbers of masks per chart and iteration, separated by commas.")
    ] = "1,4,16",
    seed: Annotated[int, typer.Option(help="Seed of the masks.")] = 1,
) -> None:
    """Learn an ITG with exact and with soft counts, and print the likelihood of each iteration."""
    grammar = make_itg(read_corpus(source, target, links), pairs)
    # Compile or load the kernels of whole charts now, so that the measured times exclude their compilation.
    count_exactly(grammar)
    print("E step", "iteration", "log-likelihood", "CPU seconds", sep="\t")
    for mask in ("exact", *masks.split(",")):
        soft = None if mask == "exact" else SoftCounts(grammar, int(mask), seed)
        for iteration, (log_likelihood, seconds) in enumerate(learning_curve(grammar, iterations, soft)):
            label = mask if soft is None else f"{mask} mask{'' if mask == '1' else 's'}"
            print(label, iteration, f"{log_likelihood:.1f}", f"{seconds:.1f}", sep="\t", flush=True)


if __name__ == "__main__":
    typer.run(main)
