"""The tree grammar of a store, for parsing."""

from collections.abc import Iterable
from typing import NamedTuple

from hierogram.daemon.exceptions import InputError, WrongKindError
from hierogram.daemon.treebanks.approximation import Prior
from hierogram.daemon.treebanks.grammars import TreeGrammar
from hierogram.daemon.treebanks.ingest import treebank_of
from hierogram.daemon.treebanks.transformations import Transformations
from hierogram.daemon.treebanks.trees import read_tree
from hierogram.samplers.grammar.kinds import FRAGMENTS, notation_of
from hierogram.samplers.grammar.uses import ONE_USE
from hierogram.storage.records import StoredRule
from hierogram.storage.store import open_store


class StoredGrammar(NamedTuple):
    """Fragments with their counts, the learned priors of their labels, how trees are transformed, and the base
    distribution that the grammar was trained with.
    """

    grammar: TreeGrammar
    priors: dict[str, Prior]
    how: Transformations
    base: str


def stored_grammar(url: str, drawn: bool = False) -> StoredGrammar:
    """Read the grammar of the store at the URL: the fragments' expected uses, or those of the present derivations.

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
        return StoredGrammar(grammar, priors, how, store.settings().base)


def _counted(rules: Iterable[StoredRule], drawn: bool) -> TreeGrammar:
    """The rules as fragments in the byte order of their texts: rows come in no particular order."""
    present: dict[str, float] = {}
    expected: dict[str, float] = {}
    for rule in rules:
        if rule.count > 0:
            present[rule.target] = float(rule.count)
        if rule.sampled_count > 0:
            expected[rule.target] = rule.sampled_count / ONE_USE
    read = {text: read_tree(text, frontiers=True) for text in sorted(present if drawn else present | expected)}
    derivations = [(tree, present[text]) for text, tree in read.items() if text in present]
    if drawn:
        return TreeGrammar(derivations)
    return TreeGrammar([(tree, expected[text]) for text, tree in read.items() if text in expected], derivations)
