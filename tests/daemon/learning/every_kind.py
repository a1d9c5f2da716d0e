"""A small store of each kind of grammar: its settings and its input."""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from tests.daemon.learning import raw_pairs, stores, treebanks

from hierogram.storage.records.settings import Settings
from hierogram.storage.store import Store


class Case(NamedTuple):
    """Settings of a kind's store, and its input."""

    settings: Settings
    fill: Callable[[Store], None]
    add: Callable[[Store], None]
    """Function that adds more pairs to a filled store."""
    key_bits: int
    """Mask of the bits of a rule's key, so few that keys of a filled store collide."""


FOREST = "(S (| #1=(NP (PRP she)) (VP (VBD saw) (NP (PRP$ her) (NN duck)))) (| (#1) (VP (VBD saw) (NP her) (VB duck))))"

CASES = {
    "phrases": Case(
        stores.QUICK,
        lambda store: stores.fill(store, stores.some_pairs(40)),
        lambda store: stores.fill(store, stores.some_pairs(55)[40:]),
        0x7F,
    ),
    "trees": Case(
        treebanks.QUICK,
        lambda store: treebanks.put(store, treebanks.TREES),
        lambda store: treebanks.put(store, ["(S (NP (PRP he)) (VP (VBD slept)))", FOREST], first=100),
        0x1F,
    ),
    "itg": Case(
        raw_pairs.QUICK,
        lambda store: raw_pairs.put(store, raw_pairs.RAW),
        lambda store: raw_pairs.put(store, raw_pairs.MORE, first=100),
        0x1F,
    ),
    "itg of phrases": Case(
        replace(raw_pairs.QUICK, phrase_words=3),
        lambda store: raw_pairs.put(store, raw_pairs.RAW),
        lambda store: raw_pairs.put(store, raw_pairs.MORE, first=100),
        0x1F,
    ),
}
