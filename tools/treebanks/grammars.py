"""Tree-substitution grammars as fragments with counts, one a line: `(NP (DT the) (NN)) ||| 17`.

Where the counts are those of derivations of a treebank, every node of it is in one counted fragment, so the
context-free productions of the treebank and their counts can be read off the grammar.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from hierogram.daemon.exceptions import InputError, WrongKindError
from hierogram.daemon.text.lines import numbered_lines
from hierogram.daemon.text.rejections import INVALID_UTF8, MALFORMED_TREE, RejectionError, shown
from hierogram.daemon.text.treebanks.ingest import treebank_of
from hierogram.daemon.text.treebanks.transformations import Transformations, transformed
from hierogram.daemon.text.treebanks.trees import Tree, preorder, read_tree
from hierogram.samplers.grammar.kinds import FRAGMENTS, notation_of
from hierogram.storage.records import StoredRule
from hierogram.storage.store import open_store

_BAR = " ||| "

Production = tuple[str, tuple[str, ...], bool]
"""Label, what it is rewritten to, and whether that is a word."""


@dataclass(frozen=True, slots=True)
class TreeGrammar:
    """Fragments, each once, with their counts, which are above 0.

    `derivations` are the fragments of one derivation of each tree with their numbers, where `fragments` are not: means
    leave out what is rarely used, and with it some productions of the treebank.
    """

    fragments: Sequence[tuple[Tree, float]]
    derivations: Sequence[tuple[Tree, float]] | None = None

    def productions(self) -> dict[Production, float]:
        """Return the context-free productions of the treebank, and how often they were used."""
        counts: defaultdict[Production, float] = defaultdict(float)
        for fragment, count in self.fragments if self.derivations is None else self.derivations:
            for node in preorder(fragment):
                if isinstance(node, Tree) and node.children:
                    counts[production_of(node)] += count
        return counts


class Prior(NamedTuple):
    """The Dirichlet process of a label: strength α_c, and β_c, how probably a nonterminal below a root is expanded."""

    strength: float
    expansion: float


def context_free(grammar: TreeGrammar) -> TreeGrammar:
    """Return the productions within the fragments, which may be whole trees, each as a fragment of its own."""
    return TreeGrammar(
        [
            (Tree(label, tuple(child if lexical else Tree(child) for child in right)), count)
            for (label, right, lexical), count in grammar.productions().items()
        ]
    )


def production_of(node: Tree) -> Production:
    """Return the production at a node; raises `InputError` where it has words beside other children."""
    words = sum(isinstance(child, str) for child in node.children)
    if words and len(node.children) > 1:
        raise InputError(f"({node.label} …) has a word beside other children: put a label over each word")
    return node.label, tuple(child if isinstance(child, str) else child.label for child in node.children), words > 0


def read_grammar(path: str) -> TreeGrammar:
    """Return the grammar in a file of `fragment ||| count` lines; fields after the count are passed over.

    Raises `InputError` where a line is something else, or there is none.
    """
    counts: dict[str, tuple[Tree, float]] = {}
    for name, number, line in numbered_lines(path):
        if not line.strip():
            continue
        try:
            fragment, count = _fragment(line)
        except RejectionError as rejection:
            raise InputError(f"{name}: line {number}: {rejection.message}") from rejection
        if count > 0:
            key = str(fragment)
            counts[key] = (fragment, counts.get(key, (fragment, 0.0))[1] + count)
    if not counts:
        raise InputError(f"{path}: holds no fragments: a grammar is lines of `(NP (DT the) (NN)) ||| 17`")
    return TreeGrammar(list(counts.values()))


def _fragment(line: bytes) -> tuple[Tree, float]:
    try:
        text = line.decode()
    except UnicodeDecodeError as error:
        raise RejectionError(INVALID_UTF8, f"byte {error.start + 1} is not UTF-8") from error
    brackets, *fields = text.split(_BAR)
    try:
        count = float(fields[0])
    except (IndexError, ValueError):
        count = math.nan
    if not math.isfinite(count) or count < 0:
        raise RejectionError(MALFORMED_TREE, f"{shown(line)} is no `fragment ||| count`, with a count from 0")
    fragment = read_tree(brackets, frontiers=True)
    if not fragment.children:
        raise RejectionError(MALFORMED_TREE, f"{fragment} is a label without anything below it, no fragment")
    return fragment, count


def binarized(grammar: TreeGrammar) -> TreeGrammar:
    """Return the grammar with at most two children everywhere, by the marks of right binarization."""

    def halved(counted: Sequence[tuple[Tree, float]]) -> list[tuple[Tree, float]]:
        return [(transformed(fragment, Transformations()), count) for fragment, count in counted]

    return TreeGrammar(halved(grammar.fragments), None if grammar.derivations is None else halved(grammar.derivations))


def stored_grammar(url: str, drawn: bool = False) -> tuple[TreeGrammar, dict[str, Prior], Transformations, str]:
    """Read the grammar of the store at the URL: the fragments' expected uses, or those of the present derivations.

    Beside it are the learned priors of its labels, how trees are transformed, and the base distribution.

    Raises `WrongKindError` where it is none of trees, `InputError` where nothing was learned, and `StoreError`.
    """
    with open_store(url) as store:
        notation = notation_of(store.settings().grammar)
        if FRAGMENTS not in notation.offers:
            raise WrongKindError(f"{store.url}: {notation.cannot('parse')}: its rules are no fragments of trees")
        treebank = treebank_of(store)
        with store.snapshot() as snapshot:
            grammar = _counted(snapshot.iterate_all_rule_rows(), drawn)
        if not grammar.fragments:
            raise InputError(f"{store.url}: nothing has been learned yet: `hierogram --store {store.url} learn`")
        priors = {row.label: Prior(row.strength, row.expansion_probability) for row in store.labels()}
        how = treebank.how if treebank else Transformations()
        return grammar, priors, how, store.settings().base


def _counted(rules: Iterable[StoredRule], drawn: bool) -> TreeGrammar:
    """Return the rules as fragments in the byte order of their texts: rows come in no particular order."""
    present: dict[str, float] = {}
    expected: dict[str, float] = {}
    for rule in rules:
        if rule.count > 0:
            present[rule.target] = float(rule.count)
        if rule.expected_uses > 0:
            expected[rule.target] = rule.expected_uses
    read = {text: read_tree(text, frontiers=True) for text in sorted(present if drawn else present | expected)}
    derivations = [(tree, present[text]) for text, tree in read.items() if text in present]
    if drawn:
        return TreeGrammar(derivations)
    return TreeGrammar([(tree, expected[text]) for text, tree in read.items() if text in expected], derivations)
