"""Conversion of a tree-substitution grammar to a chart grammar with rules that map back to trees.

Fragments have the probability of a Dirichlet process, (n_e + α_c P0(e)) / (n_c + α_c). This approximates the model,
whose counts would change with each fragment of the sentence. P0 is the base distribution used in training: P_C,
relative frequencies of productions, or P_M, uniform productions. The chart grammar contains the counted fragments. It
also contains every production of the treebank as a fragment, so that sentences that counted fragments do not cover can
be parsed [CGB09 §5]. A fragment becomes one rule of its root label. Equal subtrees of fragments share symbols [Goodman
2003; Cohn & Blunsom 2010].
"""

import math
from collections import Counter, defaultdict
from collections.abc import Mapping
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from hierogram.daemon.exceptions import InputError
from hierogram.daemon.text.treebanks.trees import Node, Tree, preorder
from hierogram.samplers.charts.chart import BINARY, LEXICAL, UNARY, ChartGrammar, make_grammar
from hierogram.samplers.charts.derivations import (
    BINARY_EDGE,
    LEFT_SPAN,
    LEXICAL_EDGE,
    RIGHT_SPAN,
    UNARY_EDGE,
    WHOLE_SPAN,
    FragmentMasses,
    Productions,
)
from hierogram.samplers.grammar.settings import PCFG, UNIFORM
from hierogram.tools.treebanks.grammars import Prior, Production, TreeGrammar, node_production


class RuleChild(NamedTuple):
    """Child of a rule: a symbol of the chart grammar, and the unary chain of labels above it."""

    above: tuple[str, ...]
    symbol: int


class FragmentRule(NamedTuple):
    """Part of a fragment as a chart rule: a unary chain of labels, `top`, and the expansion below it.

    `kind` is `LEXICAL_EDGE`, `BINARY_EDGE` or `UNARY_EDGE`. It determines the expansion: a `word`, two `parts`, or, in
    a unary rule, one part whose label is the last label of `top`.
    """

    kind: int
    top: tuple[str, ...]
    word: str
    parts: tuple[RuleChild, ...]


class Approximation(NamedTuple):
    """Chart grammar of a tree-substitution grammar.

    `rules` contains the rules of each kind, in the order of the chart grammar. `productions` contains indices of
    `production_list`. `words` maps words to ids, and `tags` maps words to their most frequent tags. `processes`
    contains the masses of fragments and labels. `root` is the symbol of whole sentences.
    """

    chart: ChartGrammar
    rules: tuple[list[FragmentRule], list[FragmentRule], list[FragmentRule]]
    productions: Productions
    production_list: list[Production]
    processes: FragmentMasses
    words: dict[str, int]
    tags: dict[str, str]
    root: int


def estimate_priors(grammar: TreeGrammar) -> dict[str, Prior]:
    """Estimate the priors of all labels from the counts of a grammar.

    β_c is the smoothed share of expanded nodes among the nodes with label c below the roots of fragments. α_c is solved
    so that the expected number of distinct fragments equals the observed number.
    """
    expanded: Counter[str] = Counter()
    stopped: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    uses: defaultdict[str, float] = defaultdict(float)
    for fragment, count in grammar.fragments:
        kinds[fragment.label] += 1
        uses[fragment.label] += count
        for node in preorder(fragment):
            if isinstance(node, Tree) and node is not fragment:
                (expanded if node.children else stopped)[node.label] += 1
    labels = set(kinds) | set(expanded) | set(stopped)
    shares = {label: (expanded[label] + 1) / (expanded[label] + stopped[label] + 2) for label in labels}
    return {label: Prior(solve_strength(kinds[label], uses[label]), shares[label]) for label in labels}


def solve_strength(kinds: int, uses: float) -> float:
    """Solve α ln(1 + `uses`/α) = `kinds` for the strength α of a Dirichlet process."""
    low, high = 1e-3, max(1.0, uses) * 100
    for _ in range(60):
        middle = math.sqrt(low * high)
        if middle * math.log1p(uses / middle) < kinds:
            low = middle
        else:
            high = middle
    return low


class _RuleBuilder:
    """Rules of fragments. Equal subtrees share one symbol. `labels` must be complete before conversion."""

    def __init__(self) -> None:
        # Symbols: the labels have the first numbers, the subtrees the next.
        self.labels: dict[str, int] = {}
        self.subtrees: dict[FragmentRule, int] = {}
        self.subtree_labels: list[str] = []
        # By kind: rules, their rows in the chart grammar, and the fragment of each rule (-1 in a subtree).
        self.rules: tuple[list[FragmentRule], list[FragmentRule], list[FragmentRule]] = ([], [], [])
        self.rows: tuple[list[tuple[float, ...]], ...] = ([], [], [])
        self.fragments: tuple[list[int], list[int], list[int]] = ([], [], [])
        self.words: dict[str, int] = {}

    def convert_fragment(self, fragment: Tree) -> FragmentRule:
        """Return the rule of a fragment, and add the rules of its subtrees. Raises `InputError`."""
        stack: list[tuple[Tree, bool]] = [(fragment, False)]
        done: list[FragmentRule] = []
        while stack:
            node, closing = stack.pop()
            if not closing:
                node_production(node)
                stack.append((node, True))
                stack.extend((child, False) for child in reversed(node.children) if isinstance(child, Tree))
                continue
            number = sum(isinstance(child, Tree) for child in node.children)
            below = done[len(done) - number :]
            del done[len(done) - number :]
            done.append(self._make_rule(node, below))
        return done[0]

    def _make_rule(self, node: Tree, below: list[FragmentRule]) -> FragmentRule:
        if not node.children:
            return FragmentRule(UNARY_EDGE, (node.label,), "", (RuleChild((), self.labels[node.label]),))
        first: Node = node.children[0]
        if isinstance(first, str):
            return FragmentRule(LEXICAL_EDGE, (node.label,), first, ())
        if len(below) == 1:
            return below[0]._replace(top=(node.label, *below[0].top))
        if len(below) == 2:
            return FragmentRule(BINARY_EDGE, (node.label,), "", (self._child(below[0]), self._child(below[1])))
        raise InputError(f"({node.label} …) has {len(below)} children, the limit is 2: binarize the fragments first")

    def _child(self, rule: FragmentRule) -> RuleChild:
        if rule.kind == UNARY_EDGE:
            return RuleChild(rule.top[:-1], rule.parts[0].symbol)
        if rule not in self.subtrees:
            symbol = self.subtrees[rule] = len(self.labels) + len(self.subtrees)
            self.subtree_labels.append(rule.top[0])
            self.add_rule(symbol, rule, 1.0, -1)
        return RuleChild((), self.subtrees[rule])

    def add_rule(self, parent: int, rule: FragmentRule, probability: float, fragment: int) -> None:
        """Add a rule with the symbol `parent`. `fragment` is the index of the fragment that it begins, or -1."""
        symbols = [part.symbol for part in rule.parts]
        if rule.kind == LEXICAL_EDGE:
            symbols = [self.words.setdefault(rule.word, len(self.words))]
        self.rules[rule.kind].append(rule)
        self.rows[rule.kind].append((parent, *symbols, probability))
        self.fragments[rule.kind].append(fragment)


def approximate(
    grammar: TreeGrammar, root: str = "TOP", priors: Mapping[str, Prior] | None = None, smoothed: bool = True,
    base: str = PCFG,
) -> Approximation:  # fmt: skip
    """Return the chart grammar of a binarized tree-substitution grammar.

    `priors` maps labels to priors. Missing priors are estimated. If `smoothed`, fragments are smoothed with `base`, one
    of `BASES`. Otherwise, they have their relative frequencies. Raises `InputError` if a fragment has a node with more
    than two children or a word with siblings, or if no fragment has the root label.
    """
    productions = grammar.productions()
    counted = {str(fragment): (fragment, count) for fragment, count in grammar.fragments}
    for label, children, is_lexical in productions if smoothed else ():
        fragment = Tree(label, tuple(child if is_lexical else Tree(child) for child in children))
        counted.setdefault(str(fragment), (fragment, 0.0))
    fragments = list(counted.values())
    builder = _RuleBuilder()
    for fragment, _ in fragments:
        for node in preorder(fragment):
            if isinstance(node, Tree) and (node is fragment or not node.children):
                builder.labels.setdefault(node.label, len(builder.labels))
    if root not in {fragment.label for fragment, _ in fragments}:
        raise InputError(f"no fragment has the root label {root}: choose the root label with --root")
    all_priors = estimate_priors(grammar) | dict(priors or {})
    base_probabilities = _base_probabilities(productions, base)
    label_totals = dict.fromkeys(builder.labels, 0.0)
    for fragment, count in fragments:
        label_totals[fragment.label] += count
    if smoothed:
        for label in label_totals:
            label_totals[label] += all_priors[label].strength
    masses, roots = [], []
    for number, (fragment, mass) in enumerate(fragments):
        if smoothed:
            probability = _fragment_probability(fragment, base_probabilities, all_priors)
            mass += all_priors[fragment.label].strength * probability
        masses.append(mass)
        roots.append(builder.labels[fragment.label])
        builder.add_rule(roots[-1], builder.convert_fragment(fragment), mass / label_totals[fragment.label], number)
    tags: dict[str, tuple[float, str]] = {}
    for (label, children, is_lexical), count in productions.items():
        if is_lexical:
            tags[children[0]] = max(tags.get(children[0], (0.0, "")), (count, label))
    rows, labels = builder.rows, len(builder.labels)
    binary, words = np.array(rows[BINARY_EDGE], BINARY), np.array(rows[LEXICAL_EDGE], LEXICAL)
    unary = np.array(rows[UNARY_EDGE], UNARY)
    return Approximation(
        make_grammar(labels, labels + len(builder.subtrees), len(builder.words), binary, words, unary),
        builder.rules,
        *_number_productions(builder),
        FragmentMasses(np.array(masses), np.array(roots, np.int32), np.array(list(label_totals.values()))),
        builder.words,
        {word: label for word, (_, label) in tags.items()},
        builder.labels[root],
    )


def _fragment_probability(
    fragment: Tree, probabilities: Mapping[Production, float], priors: Mapping[str, Prior]
) -> float:
    """Return P0 of a fragment from its productions and its frontier [CGB09 §4]."""
    probability = 1.0
    for node in preorder(fragment):
        if not isinstance(node, Tree):
            continue
        if node is not fragment:
            expansion = priors[node.label].expansion
            probability *= expansion if node.children else 1 - expansion
        if node.children:
            probability *= probabilities[node_production(node)]
    return probability


def _base_probabilities(counts: Mapping[Production, float], base: str) -> dict[Production, float]:
    """Return relative frequencies (P_C) or uniform probabilities (P_M) of productions given their label."""
    if base != UNIFORM:
        label_counts: defaultdict[str, float] = defaultdict(float)
        for (label, _, _), count in counts.items():
            label_counts[label] += count
        return {production: count / label_counts[production.label] for production, count in counts.items()}
    labels = {label for label, _, _ in counts}
    words: set[str] = set()
    for _, children, is_lexical in counts:
        (words if is_lexical else labels).update(children)
    max_children = max(len(children) for _, children, _ in counts)
    symbols = len(labels) + len(words)
    return {production: 1 / (max_children * symbols ** len(production.children)) for production in counts}


def _number_productions(builder: _RuleBuilder) -> tuple[Productions, list[Production]]:
    names = [*builder.labels, *builder.subtree_labels]
    numbers: dict[Production, int] = {}
    max_size = max(map(len, builder.rules))
    start = np.zeros((3, max_size + 1), np.int64)
    fragment = np.full((3, max_size), -1, np.int32)
    production: list[int] = []
    span_kinds: list[int] = []
    for kind, rules in enumerate(builder.rules):
        for number, rule in enumerate(rules):
            start[kind, number] = len(production)
            for production_key, span_kind in _list_productions(rule, names):
                production.append(numbers.setdefault(production_key, len(numbers)))
                span_kinds.append(span_kind)
        start[kind, len(rules) :] = len(production)
        fragment[kind, : len(rules)] = builder.fragments[kind]
    columns = start, np.array(production, np.int32), np.array(span_kinds, np.int8), fragment
    return Productions(*columns), list(numbers)


def _list_productions(rule: FragmentRule, names: list[str]) -> list[tuple[Production, int]]:
    productions = _chain(rule.top, WHOLE_SPAN)
    if rule.kind == LEXICAL_EDGE:
        productions.append((Production(rule.top[-1], (rule.word,), True), WHOLE_SPAN))
    elif rule.kind == BINARY_EDGE:
        children = tuple((*part.above, names[part.symbol])[0] for part in rule.parts)
        productions.append((Production(rule.top[-1], children, False), WHOLE_SPAN))
        for part, span_kind in zip(rule.parts, (LEFT_SPAN, RIGHT_SPAN), strict=True):
            productions += _chain((*part.above, names[part.symbol]), span_kind)
    return productions


def _chain(labels: tuple[str, ...], span_kind: int) -> list[tuple[Production, int]]:
    return [(Production(above, (below,), False), span_kind) for above, below in pairwise(labels)]
