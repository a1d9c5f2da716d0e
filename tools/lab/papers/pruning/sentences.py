"""Compare randomized pruning of sentences with coarse-to-fine pruning, as in [BPK09 §4].

    python -m hierogram.tools.lab.papers.pruning.sentences all.ptb --trees 4000

The fine grammar has all fragments of one level of a treebank's first trees, and fragments of two levels that occur
twice. The coarse grammar has only its productions. For later sentences the expected number of constituents over each
span is computed from the whole chart. The error is the sum of squared differences from these numbers. Coarse-to-fine
pruning keeps the spans whose expected number by the coarse grammar is above a threshold. Masks have the spans of the
coarse grammar's best derivation as variables. Seconds are processor time, including the coarse grammar. `core` is the
whole chart written as a hypergraph, as for pairs.
"""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from typing import Annotated, NamedTuple, cast

import numpy as np
import typer
from numpy.typing import NDArray

from hierogram.daemon.exceptions import InputError
from hierogram.daemon.progress import progress
from hierogram.daemon.text.treebanks.reading import read_trees
from hierogram.daemon.text.treebanks.transformations import Transformations, transform_tree
from hierogram.daemon.text.treebanks.trees import Tree, list_words, preorder
from hierogram.samplers.charts.chart import Chart, SentenceGrammar, Sorted, cell_of, fill_chart, restricted
from hierogram.samplers.charts.derivations import UNARY_EDGE, Forest, SentenceKey
from hierogram.samplers.charts.hypergraph import Key, score
from hierogram.samplers.charts.pruning.chain import PruningState
from hierogram.samplers.charts.pruning.selection import first_selection, next_selection
from hierogram.samplers.charts.pruning.systems import SentenceSystem, keep_spans
from hierogram.samplers.charts.sentences import make_sentence
from hierogram.samplers.exceptions import GrammarError
from hierogram.tools.lab.measures.results import timed
from hierogram.tools.lab.measures.treebanks import to_context_free
from hierogram.tools.treebanks.approximation import Approximation, approximate
from hierogram.tools.treebanks.grammars import TreeGrammar, binarize
from hierogram.tools.treebanks.parsing import Parser

_LENGTHS = ((5, 10), (11, 20), (21, 30), (31, 40))
_THRESHOLDS = (1e-1, 1e-2, 1e-3, 1e-4)
_MASKS = (1, 2, 4, 8, 16)
_CORE_LONGEST = 20
"""Maximum number of words of sentences whose chart is also written as a hypergraph."""

_cell = cast("Callable[[int, int], int]", cell_of)
_keep = cast("Callable[..., None]", keep_spans)

Spans = NDArray[np.float64]


class PrunedSentence(NamedTuple):
    """Result of a method of pruning a sentence: its name, processor seconds, squared error."""

    method: str
    seconds: float
    error: float


def make_grammar(trees: list[Tree]) -> TreeGrammar:
    """Return all fragments of one level, and fragments of two levels that occur twice, with their counts."""
    counts: Counter[Tree] = Counter()
    for tree in trees:
        for node in preorder(tree):
            if isinstance(node, Tree) and node.children:
                counts.update({_top(node, levels) for levels in (1, 2)})
    return binarize(
        TreeGrammar([(tree, float(count)) for tree, count in counts.items() if count > 1 or _levels(tree) == 1])
    )


def _top(tree: Tree, levels: int) -> Tree:
    """Return the upper levels of a tree."""
    if not levels:
        return Tree(tree.label)
    return Tree(
        tree.label, tuple(child if isinstance(child, str) else _top(child, levels - 1) for child in tree.children)
    )


def _levels(tree: Tree) -> int:
    return 1 + max((_levels(child) for child in tree.children if isinstance(child, Tree) and child.children), default=0)


def spans(forest: Forest) -> Spans:
    """Return the expected number of constituents over each span, float64[cells]."""
    counts = forest.expected()
    start, end = list_edge_spans(forest, np.arange(forest.edges))
    is_binary = forest.items.edge[: forest.edges]["kind"] != UNARY_EDGE
    words = forest.graph.grammar.words
    # Span [i, j) is cell j (j - 1) / 2 + i.
    cells = (end.astype(np.int64) * (end - 1)) // 2 + start
    counts_by_span: Spans = np.bincount(cells[is_binary], counts[is_binary], words * (words + 1) // 2).astype(
        np.float64
    )
    return counts_by_span


_BRANCHING = 2
"""Branching of rules, which are binary."""


class TreePruningKernel:
    """Chain of masks over one sentence. `number` and the seed determine its random streams."""

    def __init__(self, grammar: SentenceGrammar, root: int, spans: NDArray[np.int32], number: int) -> None:
        """Store the variables, half-open `spans` int32[V, 2]."""
        self._grammar = grammar
        self._root = root
        self._spans = spans
        self._number = number
        words = grammar.words
        self._kept = np.ones(words * (words + 1) // 2, np.bool_)

    def init(self, key: int) -> PruningState:
        """Return a derivation with the most spans, by dropping spans until one exists. Raises `GrammarError`."""
        required = np.ones(len(self._spans), np.bool_)
        root_span = self._root, 0, self._grammar.words
        while not np.isfinite((chart := self._fill(required, required)).log_weight(*root_span)):
            unassigned = np.flatnonzero(required)
            if not len(unassigned):
                raise GrammarError("the sentence has no derivation")
            required[unassigned[0]] = False
        forest = Forest(self._grammar, chart, self._root)
        selected = first_selection(len(self._spans), _BRANCHING, Key(key, self._number, 1))
        return PruningState(selected, self._drawn(forest, key, 0)[None])

    def step(self, key: int, state: PruningState, plan: int) -> tuple[PruningState, Forest]:
        """Make another mask, `plan` from 1, and return the derivations that it keeps."""
        selected = next_selection(state.selected, Key(key, self._number, 2 * plan + 1))
        forest = Forest(self._grammar, self._fill(selected, state.assigned[0]), self._root)
        return PruningState(selected, self._drawn(forest, key, 2 * plan)[None]), forest

    def _fill(self, selected: NDArray[np.bool_], assigned: NDArray[np.bool_]) -> Chart:
        _keep(self._spans, selected, assigned, self._grammar.words, self._kept)
        return fill_chart(self._grammar, self._kept)

    def _drawn(self, forest: Forest, key: int, draw: int) -> NDArray[np.bool_]:
        """Return which spans are constituents of a drawn derivation."""
        start, end = list_edge_spans(forest, forest.derivation(SentenceKey(key, self._number), draw))
        covered = np.zeros(len(self._kept), np.bool_)
        for i, j in zip(start.tolist(), end.tolist(), strict=True):
            covered[_cell(i, j)] = True
        values: NDArray[np.bool_] = covered[[_cell(int(i), int(j)) for i, j in self._spans]]
        return values


def list_edge_spans(forest: Forest, edges: NDArray[np.int64]) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Return the first and end words of the spans derived by these edges, int32[edges] each."""
    items = forest.items.item[: forest.items.used[0]]
    of = np.searchsorted(items["first"], edges, "right") - 1
    return items["start"][of], items["end"][of]


class CoarseToFine:
    """Sentences under a fine and a coarse grammar."""

    def __init__(self, fine: Approximation, coarse: Approximation) -> None:
        self._fine, self._coarse = fine, coarse
        self._parser = Parser(fine, draws=0)

    def measure(self, words: list[str], number: int) -> Iterator[PrunedSentence]:
        """Yield the result of each pruning method; empty if a grammar has no derivation of the sentence."""
        fine = self._parser.numbers(words, self._fine.words)
        coarse = self._parser.numbers(words, self._coarse.words)
        if fine is None or coarse is None:
            return
        seconds, exact = timed(lambda: self._spans(self._fine, fine), time.process_time)
        coarse_seconds, by_coarse = timed(lambda: self._spans(self._coarse, coarse), time.process_time)
        if exact is None or by_coarse is None:
            return
        yield PrunedSentence("whole", seconds, 0.0)
        if len(words) <= _CORE_LONGEST:
            seconds, span_counts = timed(lambda: _by_core(self._fine.chart, fine, self._fine.root), time.process_time)
            yield PrunedSentence("core", seconds, _error(span_counts, exact))
        for threshold in _THRESHOLDS:
            is_kept = by_coarse >= threshold
            is_kept[[k * (k + 1) // 2 + k for k in range(len(words))]] = True
            is_kept[(len(words) - 1) * len(words) // 2] = True
            seconds, pruned = timed(partial(self._spans, self._fine, fine, is_kept), time.process_time)
            yield PrunedSentence(f"coarse-to-fine {threshold:g}", coarse_seconds + seconds, _error(pruned, exact))
        yield from self._masks(words, fine, exact, number)

    def _masks(self, words: list[str], fine: NDArray[np.int32], exact: Spans, number: int) -> Iterator[PrunedSentence]:
        started = time.process_time()
        rules = restricted(self._fine.chart, fine)
        kernel = TreePruningKernel(rules, self._fine.root, self._likely_spans(words), number)
        state = kernel.init(1)
        total = np.zeros(len(exact))
        for plan in range(1, max(_MASKS) + 1):
            state, forest = kernel.step(1, state, plan)
            total += spans(forest)
            if plan in _MASKS:
                yield PrunedSentence(f"masks {plan}", time.process_time() - started, _error(total / plan, exact))

    def _likely_spans(self, words: list[str]) -> NDArray[np.int32]:
        """Return the spans of the coarse grammar's best derivation, int32[V, 2]; empty without a derivation."""
        numbers = self._parser.numbers(words, self._coarse.words)
        if numbers is None:
            return np.zeros((0, 2), np.int32)
        rules = restricted(self._coarse.chart, numbers, best=True)
        chart = fill_chart(rules)
        if not np.isfinite(chart.log_weight(self._coarse.root, 0, len(words))):
            return np.zeros((0, 2), np.int32)
        forest = Forest(rules, chart, self._coarse.root)
        start, end = list_edge_spans(forest, forest.best())
        inner = (end - start > 1) & (end - start < len(words))
        return np.unique(np.stack([start[inner], end[inner]], axis=1), axis=0).astype(np.int32)

    def _spans(
        self, grammar: Approximation, words: NDArray[np.int32], is_kept: NDArray[np.bool_] | None = None
    ) -> Spans | None:
        rules = restricted(grammar.chart, words)
        chart = fill_chart(rules, is_kept)
        if not np.isfinite(chart.log_weight(grammar.root, 0, len(words))):
            return None
        return spans(Forest(rules, chart, grammar.root))


def _by_core(rules: Sorted, words: NDArray[np.int32], root: int) -> Spans:
    """Return the same expectations from the hypergraph parser of pairs."""
    system = SentenceSystem(
        make_sentence(rules, words, root),
        np.zeros((0, 2), np.int32),
        (len(rules.grammar.lexical), len(rules.grammar.binary)),
    )
    nothing = np.zeros(0, np.bool_)
    features = system.features(score(system.build(nothing, nothing)).expected)
    return features[: len(words) * (len(words) + 1) // 2]


def _error(estimated: Spans | None, exact: Spans) -> float:
    return float(((0 if estimated is None else estimated) - exact) @ ((0 if estimated is None else estimated) - exact))


def main(
    treebank: Annotated[str, typer.Argument(metavar="TREES", help="Trees in brackets, one per line.")],
    trees: Annotated[int, typer.Option(min=10, help="Number of trees from which the grammars are read.")] = 4_000,
    sentences: Annotated[int, typer.Option(min=1, help="Number of sentences for each range of lengths.")] = 8,
) -> None:
    """Measure, and print a table."""
    transformations = Transformations()
    read = [transform_tree(tree, transformations) for tree in read_trees(treebank, 3 * trees)]
    training, tested = read[:trees], read[trees:]
    if not tested:
        raise InputError(f"{treebank} must have more than {trees:,} trees: lower --trees")
    grammar = make_grammar(training)
    root = Counter(tree.label for tree in training).most_common(1)[0][0]
    methods = CoarseToFine(approximate(grammar, root), approximate(to_context_free(grammar), root, smoothed=False))
    texts = [list_words(tree) for tree in tested]
    chosen = [
        (part, words)
        for part, (min_length, max_length) in enumerate(_LENGTHS)
        for words in [words for words in texts if min_length <= len(words) <= max_length][:sentences]
    ]
    results: defaultdict[tuple[int, str], list[PrunedSentence]] = defaultdict(list)
    # Kernels are compiled, or loaded, before the clock starts.
    for words in sorted(texts, key=len):
        if list(methods.measure(words, 0)):
            break
    with progress("parse", "sentences") as bar:
        for done, (part, words) in enumerate(chosen, 1):
            for result in methods.measure(words, done):
                results[part, result.method].append(result)
            bar.update(done, len(chosen), done)
    print("words", "method", "sentences", "seconds", "error", sep="\t")
    for (part, method), rows in results.items():
        seconds, error = np.mean([row.seconds for row in rows]), np.mean([row.error for row in rows])
        print("{}-{}".format(*_LENGTHS[part]), method, len(rows), f"{seconds:.4f}", f"{error:.5f}", sep="\t")


if __name__ == "__main__":
    typer.run(main)
