"""Parser for tree-substitution grammars.

Objectives [CGB09 §5]: MPD is the tree of the most probable derivation. MPP, the most probable parse, is the most
frequently sampled tree. MER is the tree with the largest sum of expected production counts, that is maximum expected
recall of context-free rules [Goodman 2003; MAX-RULE-SUM of Petrov & Klein 2007].
"""

from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.daemon.exceptions import InputError, UsageError
from hierogram.daemon.text.treebanks.transformations import UNKNOWN, coarser_class, word_or_class
from hierogram.daemon.text.treebanks.trees import ESCAPES, Node, Tree, with_words
from hierogram.samplers.charts.chart import fill_chart, restrict_grammar
from hierogram.samplers.charts.derivations import (
    LEFT_SPAN,
    LEXICAL_EDGE,
    RIGHT_SPAN,
    UNARY_EDGE,
    WHOLE_SPAN,
    ChartDerivations,
    SentenceKey,
    count_visits,
)
from hierogram.tools.treebanks.approximation import Approximation, FragmentRule
from hierogram.tools.treebanks.grammars import Production
from hierogram.tools.treebanks.requests import MER, MPD, MPP

_Cell = dict[tuple[Production, int], float]
"""Expected counts over a span, by production and split position (0 for fewer than two children)."""


class _BestSpan(NamedTuple):
    """Best subtree of a label over a span. `chain` contains its unary chain's labels from the top down."""

    score: float
    chain: tuple[str, ...]
    tree: Tree


def _best_by_label(
    cell: _Cell, best: dict[tuple[int, int], dict[str, _BestSpan]], start: int, end: int
) -> dict[str, _BestSpan]:
    best_spans: dict[str, _BestSpan] = {}
    single = []
    for ((label, children, is_lexical), split), count in cell.items():
        if is_lexical:
            if label not in best_spans or count > best_spans[label].score:
                best_spans[label] = _BestSpan(count, (label,), Tree(label, children))
        elif len(children) == 1:
            single.append((label, children[0], count))
        else:
            left_span = best.get((start, split), {}).get(children[0])
            right_span = best.get((split, end), {}).get(children[1])
            if left_span and right_span:
                score = count + left_span.score + right_span.score
                if label not in best_spans or score > best_spans[label].score:
                    best_spans[label] = _BestSpan(score, (label,), Tree(label, (left_span.tree, right_span.tree)))
    changed = bool(single)
    while changed:
        changed = False
        for label, child, count in single:
            below = best_spans.get(child)
            if below is None or label in below.chain:
                continue
            if label not in best_spans or count + below.score > best_spans[label].score:
                tree = Tree(label, (below.tree,))
                best_spans[label] = _BestSpan(count + below.score, (label, *below.chain), tree)
                changed = True
    return best_spans


_MIN_EXPECTED = 1e-3
"""Minimum expected count of the chart edges that MER considers."""


class ParseResult(NamedTuple):
    """Binarized tree of a sentence. If `found` is False, no derivation exists and the tree is flat."""

    tree: Tree
    found: bool


class Parser:
    """Parser with one grammar. MPD does not sample. If `draws` is 0, MER uses exact expectations."""

    def __init__(self, grammar: Approximation, root: str = "TOP", draws: int = 1000, seed: int = 1) -> None:
        self.grammar, self.root, self.draws, self.seed = grammar, root, draws, seed

    def parse(self, words: Sequence[str], sentence: int, method: str = MER) -> ParseResult:
        """Parse a sentence by one of `METHODS`. The number `sentence` selects the random stream."""
        if method == MPP and not self.draws:
            raise UsageError("mpp requires draws: pass --draws 1000")
        words = [ESCAPES.get(word, word) for word in words]
        word_ids = self._word_ids(words)
        forest = None if word_ids is None else self._forest(word_ids, best=method == MPD)
        if forest is None:
            return ParseResult(self._flat_tree(words), False)
        if method == MPD:
            tree = self._tree(forest, forest.best())
        elif self.draws:
            key = SentenceKey(self.seed, sentence)
            visits, draw = self._run_chain(forest, key)
            if method == MPP:
                tree = self._tree(forest, forest.derivation(key, draw))
            else:
                tree = self._expected_tree(forest, forest.count_uses(key, visits) / visits.sum())
        else:
            tree = self._expected_tree(forest, forest.expected())
        return ParseResult(with_words(tree, words), True)

    def _word_ids(self, words: Sequence[str]) -> NDArray[np.int32] | None:
        """Return word ids, or None if a word has no id. An unknown word has the id of its finest known class."""
        known_ids, word_ids = self.grammar.words, []
        for position, word in enumerate(words):
            word_class: str | None = word_or_class(word, position, known_ids)
            while word_class is not None and word_class not in known_ids:
                word_class = coarser_class(word_class) if word_class.startswith(UNKNOWN) else None
            word_ids.append(known_ids.get(word_class or UNKNOWN))
        return None if None in word_ids else np.array(word_ids, np.int32)

    def _forest(self, words: NDArray[np.int32], best: bool) -> ChartDerivations | None:
        """Return all derivations, or None if there are none. `best` restricts use to the best derivation."""
        rules = restrict_grammar(self.grammar.chart, words, best)
        chart = fill_chart(rules)
        if not np.isfinite(chart.log_weight(self.grammar.root, len(words))):
            return None
        return ChartDerivations(rules, chart, self.grammar.root)

    def _run_chain(self, forest: ChartDerivations, key: SentenceKey) -> tuple[NDArray[np.int64], int]:
        """Sample derivations. Returns the visits to each draw, and the first draw of the most frequent tree."""
        samples = forest.draw(key, self.draws, self.grammar.productions, self.grammar.processes)
        visits = count_visits(key, samples)
        trees, first, which = np.unique(samples.tree, return_index=True, return_inverse=True)
        frequency = np.bincount(which, visits, len(trees))
        # Break ties by the first draw, because the numbers of trees are arbitrary.
        best = max(range(len(trees)), key=lambda k: (frequency[k], -first[k]))
        return visits, int(first[best])

    def _tree(self, forest: ChartDerivations, derivation: NDArray[np.int64]) -> Tree:
        rows = forest.graph.items.edge[derivation][::-1]
        done: list[Node] = []
        for kind, rule in zip(rows["kind"].tolist(), rows["rule"].tolist(), strict=True):
            fragment_rule: FragmentRule = self.grammar.rules[kind][rule]
            if kind == LEXICAL_EDGE:
                done.append(_wrap(fragment_rule.top, fragment_rule.word))
            elif kind == UNARY_EDGE:
                done.append(_wrap(fragment_rule.top[:-1], done.pop()))
            else:
                left, right = done.pop(), done.pop()
                left_part, right_part = fragment_rule.parts
                children = (_wrap(left_part.above, left), _wrap(right_part.above, right))
                done.append(_wrap(fragment_rule.top[:-1], Tree(fragment_rule.top[-1], children)))
        [tree] = done
        assert isinstance(tree, Tree)
        return tree

    def _expected_tree(self, forest: ChartDerivations, counts: NDArray[np.float64]) -> Tree:
        cells: defaultdict[tuple[int, int], _Cell] = defaultdict(dict)
        edges = np.flatnonzero(counts > _MIN_EXPECTED)
        expanded = forest.graph.items
        rows, items = expanded.edge[edges], expanded.item[: expanded.used[0]]
        item_rows = np.searchsorted(items["first"], edges, "right") - 1
        productions = self.grammar.productions
        columns = (
            *(rows[name] for name in ("kind", "rule", "split")),
            *(items[name][item_rows] for name in ("start", "end")),
            counts[edges],
        )
        for kind, rule, split, start, end, count in zip(*(column.tolist() for column in columns), strict=True):
            spans = {WHOLE_SPAN: (start, end), LEFT_SPAN: (start, split), RIGHT_SPAN: (split, end)}
            for p in range(productions.start[kind, rule], productions.start[kind, rule + 1]):
                span = spans[productions.span_kind[p]]
                production = self.grammar.production_list[productions.production[p]]
                key = production, split if len(production.children) == 2 else 0
                cells[span][key] = cells[span].get(key, 0.0) + count
        best: dict[tuple[int, int], dict[str, _BestSpan]] = {}
        for span in sorted(cells, key=lambda span: (span[1] - span[0], span)):
            best[span] = _best_by_label(cells[span], best, *span)
        words = forest.graph.grammar.length
        if self.root not in best.get((0, words), {}):
            raise InputError(f"the expected productions do not form a tree with root {self.root}: use --method mpd")
        return best[0, words][self.root].tree

    def _flat_tree(self, words: Sequence[str]) -> Tree:
        tags = self.grammar.tags
        likeliest = max(tags.values(), key=list(tags.values()).count)
        children = tuple(
            Tree(tags.get(word_or_class(word, position, self.grammar.words), likeliest), (word,))
            for position, word in enumerate(words)
        )
        return Tree(self.root, children)


def _wrap(labels: Sequence[str], node: Node) -> Node:
    for label in reversed(labels):
        node = Tree(label, (node,))
    return node
