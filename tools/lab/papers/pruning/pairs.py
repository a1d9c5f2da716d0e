"""Sentence pairs and grammars for the experiments of [BPK09].

The variables of a pair are its links: a derivation emits the linked words as a pair, or not.
"""

from functools import cached_property
from itertools import permutations
from typing import Annotated, NamedTuple

import numpy as np
import typer
from numpy.typing import NDArray

from hierogram.daemon.exceptions import InputError
from hierogram.daemon.text.lines import read_sentences
from hierogram.samplers.alignment.models.itg import LinkedPairs, itg_rules, slice_pair
from hierogram.samplers.charts.hypergraph import Hypergraph
from hierogram.samplers.charts.pairs import ANY, Rules, is_word, make_rules
from hierogram.samplers.charts.pruning.pair_charts import PairChart
from hierogram.samplers.itg.model import train_model1
from hierogram.tools.alignment_scores import read_links
from hierogram.tools.lab.measures.itg import make_text_batch

SourceFile = Annotated[str, typer.Argument(metavar="SRC", help="Source sentences, one per line.")]
TargetFile = Annotated[str, typer.Argument(metavar="TGT", help="Target sentences, one per line.")]
LinksFile = Annotated[str, typer.Argument(metavar="LINKS", help="Links as Pharaoh lines, optionally with scores.")]
MAX_EDGES = 1 << 26
"""Maximum number of edges of a chart."""
LARGEST = 130
"""Maximum number of word pairs of a pair for which the whole chart is filled, as in the paper."""
_MIN_PROBABILITY = 0.1
"""Minimum probability of a link that is a variable."""


def mixed_rules() -> Rules:
    """Return rules of up to three nonterminals in any order and up to one word anywhere on each side."""
    sides: list[tuple[list[int], list[int]]] = [([ANY], [ANY])]
    for size in (1, 2, 3):
        source = [-1 - k for k in range(size)]
        for order in permutations(source):
            target = list(order)
            with_word = [[*target[:k], ANY, *target[k:]] for k in range(size + 1)]
            for k in range(size + 1):
                mixed = [*source[:k], ANY, *source[k:]]
                sides += [(mixed, other) for other in (target, *with_word)]
            sides += [(source, other) for other in with_word]
            if size > 1:
                sides.append((source, target))
    return make_rules(sides, np.array([1.0] + [0.1] * (len(sides) - 1)), empty_sides=False)


class PrunedGrammar(NamedTuple):
    """Rules of charts. `empty_sides` is True if nonterminals may be empty on one side."""

    rules: Rules
    empty_sides: bool


GRAMMARS = {"itg": PrunedGrammar(itg_rules(), True), "mixed": PrunedGrammar(mixed_rules(), False)}


def branching(rules: Rules) -> int:
    """Return the maximum number of nonterminals in a rule whose only words are `ANY`."""
    source, target = rules.source, rules.target
    numbers = np.arange(len(rules.weight))
    source_rules, target_rules = (np.repeat(numbers, np.diff(side.first)) for side in (source, target))
    arity = np.bincount(source_rules[~is_word(source.symbols)], minlength=len(numbers))
    arity[source_rules[source.symbols >= 0]] = 0
    arity[target_rules[target.symbols >= 0]] = 0
    return int(arity.max(initial=0))


def build_whole(chart: PairChart) -> Hypergraph:
    """Return the whole chart of a pair, without a mask."""
    no_variables = np.zeros(chart.variables, np.bool_)
    return chart.build(no_variables, no_variables)


class CountedChart(PairChart):
    """Chart builder of a pair that records the number of edges of each graph."""

    @cached_property
    def edges_built(self) -> list[int]:
        """Number of edges of each graph built so far, in order."""
        return []

    def build(self, selected: NDArray[np.bool_], assigned: NDArray[np.bool_]) -> Hypergraph:
        """Return the graph of derivations that agree with `assigned` in all `selected` variables, bool[V]."""
        graph = super().build(selected, assigned)
        self.edges_built.append(graph.edges)
        return graph


class LinkedCorpus(LinkedPairs):
    """Sentence pairs of a corpus, with one-to-one links as variables. Pairs are numbered from 0."""

    def size(self, pair: int) -> tuple[int, int]:
        """Return the number of words of each side."""
        source, target, _ = slice_pair(self.batch, pair)
        return len(source), len(target)

    def sizes(self) -> NDArray[np.int64]:
        """Return the number of word pairs, source words times target words, of each pair, int64[pairs]."""
        sizes: NDArray[np.int64] = np.diff(self.batch.source_offset) * np.diff(self.batch.target_offset)
        return sizes

    def linked(self) -> NDArray[np.bool_]:
        """Return a mask of the pairs with at least two links, bool[pairs]."""
        return np.array([len(links) > 1 for links in self.links])

    def chart(self, grammar: str, pair: int) -> CountedChart:
        """Return the chart of a pair, which builds its charts under a grammar, a key of `GRAMMARS`."""
        rules, empty_sides = GRAMMARS[grammar]
        chart = CountedChart(rules, self.words(pair), self.links[pair], empty_sides, MAX_EDGES)
        chart.branching = branching(rules)
        return chart


def read_corpus(source: str, target: str, links: str) -> LinkedCorpus:
    """Read pairs and their links, optionally with the probabilities of `hierogram align --score`.

    Drops links with a probability below 0.1, and links that share a word with a more probable link. Raises `InputError`
    if the files differ in length or a line of links is invalid.
    """
    batch = make_text_batch(read_sentences(source), read_sentences(target))
    lines = [line.partition("|||")[::2] for line in read_sentences(links)]
    if len(lines) != batch.size:
        raise InputError(f"{links}: expected {batch.size} lines, one for each pair, got {len(lines)}")
    # Raise an error for invalid lines.
    read_links(links)
    variables = [_one_to_one(texts.split(), scores.split()) for texts, scores in lines]
    return LinkedCorpus.from_links(batch, train_model1(batch), variables)


def _one_to_one(links: list[str], scores: list[str]) -> NDArray[np.int32]:
    """Return the kept links of a line, int32[V, 2]. Without scores, all are equally probable."""
    pairs = [(int(i), int(x)) for i, x in (link.split("-") for link in links)]
    probability = dict(zip(pairs, map(float, scores), strict=True)) if scores else dict.fromkeys(pairs, 1.0)
    chosen: list[tuple[int, int]] = []
    for i, x in sorted(
        (link for link in probability if probability[link] >= _MIN_PROBABILITY),
        key=lambda link: (-probability[link], link),
    ):
        if all(i != a and x != b for a, b in chosen):
            chosen.append((i, x))
    return np.array(sorted(chosen), np.int32).reshape(-1, 2)
