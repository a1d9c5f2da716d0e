"""The tree grammar of a store, for parsing."""

from typing import NamedTuple

from hierogram.daemon.exceptions import InputError, WrongKindError
from hierogram.daemon.treebanks.approximation import Prior
from hierogram.daemon.treebanks.grammars import TreeGrammar
from hierogram.daemon.treebanks.ingest import treebank_of
from hierogram.daemon.treebanks.transformations import Transformations
from hierogram.daemon.treebanks.trees import read_tree
from hierogram.samplers.grammar.kinds import FRAGMENTS, notation_of
from hierogram.storage.store import open_store


class StoredGrammar(NamedTuple):
    """Fragments in use with their counts, the learned priors of their labels, how trees are transformed, and the base
    distribution that the grammar was trained with.
    """

    grammar: TreeGrammar
    priors: dict[str, Prior]
    how: Transformations
    base: str


def stored_grammar(url: str) -> StoredGrammar:
    """The grammar of the store at the URL.

    Raises `WrongKindError` where it is none of trees, `InputError` where nothing was learned, and `StoreError`.
    """
    with open_store(url) as store:
        notation = notation_of(store.settings().grammar)
        if FRAGMENTS not in notation.offers:
            raise WrongKindError(f"{store.url}: {notation.cannot('parse')}: its rules are no fragments of trees")
        treebank = treebank_of(store)
        with store.snapshot() as snapshot:
            fragments = [
                (read_tree(rule.target, frontiers=True), float(rule.count)) for rule in snapshot.iterate_rules()
            ]
        if not fragments:
            raise InputError(f"{store.url}: nothing has been learned yet: `hierogram --store {store.url} learn`")
        priors = {row.label: Prior(row.strength, row.expansion_probability) for row in store.labels()}
        how = treebank.how if treebank else Transformations()
        return StoredGrammar(TreeGrammar(fragments), priors, how, store.settings().base)
