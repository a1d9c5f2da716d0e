"""Tree-substitution grammars as lists of fragments with counts, such as `(NP (DT the) (NN)) ||| 17`.

If the counts are from derivations of a treebank, every production of the treebank belongs to exactly one counted
fragment, so that the treebank's context-free productions can be counted in the grammar.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from hierogram.daemon.exceptions import InputError, WrongKindError
from hierogram.daemon.text.lines import numbered_lines
from hierogram.daemon.text.rejections import MALFORMED_TREE, RejectionError, quote_bytes
from hierogram.daemon.text.treebanks.ingest import read_treebank_settings
from hierogram.daemon.text.treebanks.transformations import Transformations, transform_tree
from hierogram.daemon.text.treebanks.trees import Tree, preorder, read_tree
from hierogram.daemon.text.validation import decode_text
from hierogram.samplers.grammar.kinds import FRAGMENTS, find_grammar_kind
from hierogram.storage.records.columns import StoredRules
from hierogram.storage.store import Store

_BAR = " ||| "


class Production(NamedTuple):
    """Context-free production. `children` are labels, or a single word if `is_lexical`."""

    label: str
    children: tuple[str, ...]
    is_lexical: bool


@dataclass(frozen=True, slots=True)
class TreeGrammar:
    """Distinct fragments with positive counts.

    `derivations` contains the fragments of one derivation per tree if `fragments` has posterior means, which omit rare
    fragments and thus some productions of the treebank.
    """

    fragments: Sequence[tuple[Tree, float]]
    derivations: Sequence[tuple[Tree, float]] | None = None

    def productions(self) -> dict[Production, float]:
        """Return the context-free productions of the treebank with their counts."""
        counts: defaultdict[Production, float] = defaultdict(float)
        for fragment, count in self.fragments if self.derivations is None else self.derivations:
            for node in preorder(fragment):
                if isinstance(node, Tree) and node.children:
                    counts[node_production(node)] += count
        return counts


class Prior(NamedTuple):
    """Dirichlet process prior of a label: strength α_c, and probability β_c of expanding an inner node."""

    strength: float
    expansion: float


def node_production(node: Tree) -> Production:
    """Return the production at a node. Raises `InputError` if a word has siblings."""
    words = sum(isinstance(child, str) for child in node.children)
    if words and len(node.children) > 1:
        raise InputError(f"({node.label} …) has a word with siblings: add a label above each word")
    children = tuple(child if isinstance(child, str) else child.label for child in node.children)
    return Production(node.label, children, words > 0)


def read_grammar(path: str) -> TreeGrammar:
    """Read a grammar from `fragment ||| count` lines, ignoring further fields. Raises `InputError`."""
    counts: dict[str, tuple[Tree, float]] = {}
    for name, number, line in numbered_lines(path):
        if not line.strip():
            continue
        try:
            fragment, count = _read_fragment(line)
        except RejectionError as rejection:
            raise InputError(f"{name}, line {number}: {rejection.message}") from rejection
        if count > 0:
            key = str(fragment)
            counts[key] = (fragment, counts.get(key, (fragment, 0.0))[1] + count)
    if not counts:
        raise InputError(f"{path}: no fragments found: expected lines such as `(NP (DT the) (NN)) ||| 17`")
    return TreeGrammar(list(counts.values()))


def _read_fragment(line: bytes) -> tuple[Tree, float]:
    # The fragment ends where its brackets are balanced, because a word may be `|||`.
    brackets, *fields = decode_text(line, "the line").split(_BAR)
    while len(fields) > 1 and brackets.count("(") > brackets.count(")"):
        brackets += _BAR + fields.pop(0)
    try:
        count = float(fields[0])
    except (IndexError, ValueError):
        count = math.nan
    if not math.isfinite(count) or count < 0:
        raise RejectionError(MALFORMED_TREE, f"{quote_bytes(line)} is not `fragment ||| count` with a count >= 0")
    fragment = read_tree(brackets, frontiers=True)
    if not fragment.children:
        raise RejectionError(MALFORMED_TREE, f"{fragment} is a bare label, not a fragment")
    return fragment, count


def binarize(grammar: TreeGrammar) -> TreeGrammar:
    """Return the grammar with right-binarized fragments, as `approximate` requires."""

    def binarize_all(counted: Sequence[tuple[Tree, float]]) -> list[tuple[Tree, float]]:
        return [(transform_tree(fragment, Transformations()), count) for fragment, count in counted]

    derivations = None if grammar.derivations is None else binarize_all(grammar.derivations)
    return TreeGrammar(binarize_all(grammar.fragments), derivations)


def load_grammar(
    store: Store, current_sample: bool = False
) -> tuple[TreeGrammar, dict[str, Prior], Transformations, str]:
    """Return a store's grammar, priors of labels, tree transformations, and base distribution.

    Counts are expected uses, or with `current_sample` the uses in the current derivations. Raises `WrongKindError` if
    the store has no tree grammar, and `InputError` if nothing is learned yet.
    """
    settings = store.settings()
    grammar_kind = find_grammar_kind(settings.grammar)
    if FRAGMENTS not in grammar_kind.capabilities:
        raise WrongKindError(f"{store.url}: {grammar_kind.cannot('parse')}: its rules are not tree fragments")
    transformations, _ = read_treebank_settings(store) or (Transformations(), frozenset())
    with store.snapshot() as snapshot:
        grammar = _read_rules(snapshot.rule_ranges(), current_sample)
    if not grammar.fragments:
        raise InputError(f"{store.url}: nothing learned yet: run `hierogram --store {store.url} learn`")
    priors = {label: Prior(*parameters) for label, *parameters in store.labels()}
    return grammar, priors, transformations, settings.base


def _read_rules(parts: Iterable[StoredRules], current_sample: bool) -> TreeGrammar:
    """Return the rules as fragments, sorted by text because rows have no defined order."""
    present: dict[str, float] = {}
    expected: dict[str, float] = {}
    for part in parts:
        rules = part.rules
        columns = rules.target.strings(), rules.count.tolist(), rules.expected_uses.tolist()
        for target, count, uses in zip(*columns, strict=True):
            if count > 0:
                present[target] = float(count)
            if uses > 0:
                expected[target] = uses
    read = {text: read_tree(text, frontiers=True) for text in sorted(present if current_sample else present | expected)}
    derivations = [(tree, present[text]) for text, tree in read.items() if text in present]
    if current_sample:
        return TreeGrammar(derivations)
    return TreeGrammar([(tree, expected[text]) for text, tree in read.items() if text in expected], derivations)
