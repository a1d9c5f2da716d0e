"""From a tree-substitution grammar to a grammar for charts, with a way back from its rules to trees.

A fragment's probability is that of a Dirichlet process, (n_e + α_c P0(e)) / (n_c + α_c). The process has infinitely
many fragments; kept are those that were counted and every production of the treebank as a fragment of its own, so that
what fragments leave out can still be parsed [CGB09 §5]. A kept fragment becomes one rule for its root; equal parts of
fragments share the symbols inside [Goodman 2003; Cohn & Blunsom 2010]. P0 is the base distribution that the grammar was
trained with: P_C, of the productions' relative frequencies, or P_M, under which all are equally probable.
"""

import math
from collections import Counter, defaultdict
from collections.abc import Mapping
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from hierogram.daemon.exceptions import InputError
from hierogram.daemon.text.treebanks.trees import Node, Tree, preorder
from hierogram.samplers.charts.chart import BINARY, LEXICAL, UNARY, Sorted, make_grammar, sort_rules
from hierogram.samplers.charts.derivations import BINARY_EDGE, LEXICAL_EDGE, UNARY_EDGE, FragmentMasses, Productions
from hierogram.samplers.grammar.settings import PCFG, UNIFORM
from hierogram.tools.treebanks.grammars import Prior, Production, TreeGrammar, production_of

OWN, LEFT, RIGHT = 0, 1, 2
"""Which words a production covers, of those of its rule."""


class RuleSide(NamedTuple):
    """One side of a rule: labels of the fragment above its symbol, and the symbol."""

    above: tuple[str, ...]
    symbol: int


class Rule(NamedTuple):
    """A rule as part of a fragment: the labels at its top, from its parent's down, and what the last one is made of.

    By its `kind` that is a word, two parts, or nothing: then it is the label of the one part's symbol.
    """

    kind: int
    top: tuple[str, ...]
    word: str
    parts: tuple[RuleSide, ...]


class Approximation(NamedTuple):
    """A grammar for charts.

    `rules`: by kind, in the order of the chart grammar's; `productions` numbered in `production_list`; `words` numbers
    the vocabulary; `root` is the symbol over whole sentences.
    """

    chart: Sorted
    rules: tuple[list[Rule], list[Rule], list[Rule]]
    productions: Productions
    production_list: list[Production]
    processes: FragmentMasses
    words: dict[str, int]
    tags: dict[str, str]
    root: int


def estimated_priors(grammar: TreeGrammar) -> dict[str, Prior]:
    """Return priors as the grammar itself suggests.

    β_c by how often its different fragments go on below a label, smoothed by one each way; α_c at which the number of
    different fragments is the expected one of their uses.
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
    return {
        label: Prior(
            strength_for(kinds[label], uses[label]), (expanded[label] + 1) / (expanded[label] + stopped[label] + 2)
        )
        for label in labels
    }


def strength_for(kinds: int, uses: float) -> float:
    """Return the strength α of a Dirichlet process at which α ln(1 + uses/α), about its tables, is `kinds`."""
    low, high = 1e-3, max(1.0, uses) * 100
    for _ in range(60):
        middle = math.sqrt(low * high)
        if middle * math.log1p(uses / middle) < kinds:
            low = middle
        else:
            high = middle
    return low


class _Interning:
    """Symbols for equal parts of fragments, and the rules of all symbols."""

    def __init__(self) -> None:
        self.labels: dict[str, int] = {}
        self.inside: dict[Rule, int] = {}
        self.tops: list[str] = []
        self.rules: tuple[list[Rule], list[Rule], list[Rule]] = ([], [], [])
        self.rows: tuple[list[tuple[float, ...]], ...] = ([], [], [])
        self.fragments: tuple[list[int], list[int], list[int]] = ([], [], [])
        self.words: dict[str, int] = {}

    def rule_of(self, fragment: Tree) -> Rule:
        """Return the fragment's own rule; those of its parts are entered."""
        stack: list[tuple[Tree, bool]] = [(fragment, False)]
        done: list[Rule] = []
        while stack:
            node, closing = stack.pop()
            if not closing:
                production_of(node)
                stack.append((node, True))
                stack.extend((child, False) for child in reversed(node.children) if isinstance(child, Tree))
                continue
            number = sum(isinstance(child, Tree) for child in node.children)
            below = done[len(done) - number :]
            del done[len(done) - number :]
            done.append(self._combined(node, below))
        return done[0]

    def _combined(self, node: Tree, below: list[Rule]) -> Rule:
        if not node.children:
            return Rule(UNARY_EDGE, (node.label,), "", (RuleSide((), self.labels[node.label]),))
        first: Node = node.children[0]
        if isinstance(first, str):
            return Rule(LEXICAL_EDGE, (node.label,), first, ())
        if len(below) == 1:
            return below[0]._replace(top=(node.label, *below[0].top))
        if len(below) == 2:
            return Rule(BINARY_EDGE, (node.label,), "", (self._part(below[0]), self._part(below[1])))
        raise InputError(f"({node.label} …) has {len(below)} children: binarize the fragments first")

    def _part(self, rule: Rule) -> RuleSide:
        if rule.kind == UNARY_EDGE:
            return RuleSide(rule.top[:-1], rule.parts[0].symbol)
        symbol = self.inside.get(rule)
        if symbol is None:
            symbol = self.inside[rule] = len(self.labels) + len(self.inside)
            self.tops.append(rule.top[0])
            self.enter(symbol, rule, 1.0, -1)
        return RuleSide((), symbol)

    def enter(self, parent: int, rule: Rule, weight: float, fragment: int) -> None:
        """Add a rule for a symbol."""
        symbols = [part.symbol for part in rule.parts]
        if rule.kind == LEXICAL_EDGE:
            symbols = [self.words.setdefault(rule.word, len(self.words))]
        self.rules[rule.kind].append(rule)
        self.rows[rule.kind].append((parent, *symbols, weight))
        self.fragments[rule.kind].append(fragment)


def approximate(
    grammar: TreeGrammar,
    root: str = "TOP",
    priors: Mapping[str, Prior] | None = None,
    smoothed: bool = True,
    base: str = PCFG,
) -> Approximation:
    """Return the grammar for charts of a grammar whose fragments have at most two children everywhere.

    `priors` by label; those of labels that have none are estimated. `base` is the base distribution that fragments are
    smoothed with, one of `BASES`. Without smoothing, fragments have their relative frequencies. Raises `InputError`
    where a fragment has more children, or no fragment begins with the root.
    """
    productions = grammar.productions()
    counted = {str(fragment): (fragment, count) for fragment, count in grammar.fragments}
    for label, right, lexical in productions if smoothed else ():
        fragment = Tree(label, tuple(word if lexical else Tree(word) for word in right))
        counted.setdefault(str(fragment), (fragment, 0.0))
    fragments = list(counted.values())
    interning = _Interning()
    for fragment, _ in fragments:
        for node in preorder(fragment):
            if isinstance(node, Tree) and (node is fragment or not node.children):
                interning.labels.setdefault(node.label, len(interning.labels))
    if root not in {fragment.label for fragment, _ in fragments}:
        raise InputError(f"no fragment begins with {root}, the label over whole sentences: name it with --root")
    prior_of = {**estimated_priors(grammar), **(priors or {})}
    p0 = _Base(_base_probabilities(grammar, base), prior_of)
    whole = dict.fromkeys(interning.labels, 0.0)
    for fragment, count in fragments:
        whole[fragment.label] += count
    if smoothed:
        for label in whole:
            whole[label] += prior_of[label].strength
    masses = []
    for number, (fragment, count) in enumerate(fragments):
        mass = count
        if smoothed:
            mass += prior_of[fragment.label].strength * p0.of(fragment)
        masses.append(mass)
        symbol = interning.labels[fragment.label]
        interning.enter(symbol, interning.rule_of(fragment), mass / whole[fragment.label], number)
    return _packed(interning, masses, [fragment for fragment, _ in fragments], whole, productions, root)


class _Base(NamedTuple):
    """The base distribution: P of each production, and how probably each label is expanded."""

    probabilities: Mapping[Production, float]
    priors: Mapping[str, Prior]

    def of(self, fragment: Tree) -> float:
        """Return the probability of a fragment by its productions and by where it stops [CGB09 §4]."""
        probability = 1.0
        for node in preorder(fragment):
            if not isinstance(node, Tree):
                continue
            if node is not fragment:
                expansion = self.priors[node.label].expansion
                probability *= expansion if node.children else 1 - expansion
            if node.children:
                probability *= self.probabilities[production_of(node)]
        return probability


def _base_probabilities(grammar: TreeGrammar, base: str) -> dict[Production, float]:
    """Return the probabilities of productions given their label: relative frequencies (P_C), or uniform ones (P_M).

    P_M: the number of children uniform up to the largest that occurs, each child uniform over all labels and words.
    """
    counts = grammar.productions()
    if base != UNIFORM:
        heads: defaultdict[str, float] = defaultdict(float)
        for (label, _, _), count in counts.items():
            heads[label] += count
        return {production: count / heads[production[0]] for production, count in counts.items()}
    labels = {label for label, _, _ in counts} | {
        child for _, children, lexical in counts for child in children if not lexical
    }
    words = {children[0] for _, children, lexical in counts if lexical}
    most = max(len(children) for _, children, _ in counts)
    symbols = len(labels) + len(words)
    return {production: 1 / (most * symbols ** len(production[1])) for production in counts}


def _packed(
    interning: _Interning,
    masses: list[float],
    fragments: list[Tree],
    whole: dict[str, float],
    counted: Mapping[Production, float],
    root: str,
) -> Approximation:
    labels = len(interning.labels)
    rows = interning.rows
    chart = make_grammar(
        labels,
        labels + len(interning.inside),
        np.array(rows[BINARY_EDGE], BINARY),
        np.array(rows[LEXICAL_EDGE], LEXICAL),
        np.array(rows[UNARY_EDGE], UNARY),
    )
    names = [*interning.labels, *interning.tops]
    numbers: dict[Production, int] = {}
    most = max(map(len, interning.rules))
    start = np.zeros((3, most + 1), np.int64)
    fragment = np.full((3, most), -1, np.int32)
    production: list[int] = []
    places: list[int] = []
    for kind, rules in enumerate(interning.rules):
        for number, rule in enumerate(rules):
            start[kind, number] = len(production)
            for of_symbols, place in _productions_of(rule, names):
                production.append(numbers.setdefault(of_symbols, len(numbers)))
                places.append(place)
        start[kind, len(rules) :] = len(production)
        fragment[kind, : len(rules)] = interning.fragments[kind]
    processes = FragmentMasses(
        np.array(masses),
        np.array([interning.labels[tree.label] for tree in fragments], np.int32),
        np.array([whole[label] for label in interning.labels]),
    )
    tags: dict[str, tuple[float, str]] = {}
    for (label, right, lexical), count in counted.items():
        if lexical:
            tags[right[0]] = max(tags.get(right[0], (0.0, "")), (count, label))
    return Approximation(
        sort_rules(chart, len(interning.words)),
        interning.rules,
        Productions(start, np.array(production, np.int32), np.array(places, np.int8), fragment),
        list(numbers),
        processes,
        interning.words,
        {word: label for word, (_, label) in tags.items()},
        interning.labels[root],
    )


def _productions_of(rule: Rule, names: list[str]) -> list[tuple[Production, int]]:
    """Return the context-free productions of a rule, and which of its words each covers; `names` are of symbols."""
    found = _chain(rule.top, OWN)
    if rule.kind == LEXICAL_EDGE:
        found.append(((rule.top[-1], (rule.word,), True), OWN))
    elif rule.kind == BINARY_EDGE:
        children = tuple((*part.above, names[part.symbol])[0] for part in rule.parts)
        found.append(((rule.top[-1], children, False), OWN))
        for part, place in zip(rule.parts, (LEFT, RIGHT), strict=True):
            found += _chain((*part.above, names[part.symbol]), place)
    return found


def _chain(labels: tuple[str, ...], place: int) -> list[tuple[Production, int]]:
    return [((above, (below,), False), place) for above, below in pairwise(labels)]
