"""A small corpus of pairs without links, and stores of it."""

from collections.abc import Sequence

from tests.daemon.learning.stores import fill
from tests.storage.building import NewPair

from hierogram.samplers.grammar.settings import ITG
from hierogram.storage.records.settings import Settings
from hierogram.storage.store import Store

QUICK = Settings(grammar=ITG, burn_in=4, round_sweeps=2, seed=5)

RAW = [
    ("la maison blanche", "the white house"),
    ("la maison", "the house"),
    ("une maison verte", "a green house"),
    ("la porte de la maison", "the house 's door"),
    ("la porte verte", "the green door"),
    ("elle ne vient pas", "she does not come"),
    ("il ne vient pas", "he does not come"),
    ("la maison", "the house"),
    ("oui", "yes indeed"),
    ("[X,1] \\ porte", "[X,2] door"),
]
"""Raw pairs, with one repeated pair and words that look like rule notation."""

MORE = [("une porte", "a door"), ("la porte", "the door")]


def put(store: Store, pairs: Sequence[tuple[str, str]], first: int = 1, links: str | None = None) -> None:
    """Store pairs, without links unless they are given. Fails if a pair is rejected."""
    new = []
    for k, (source, target) in enumerate(pairs):
        sizes, occurrence = (len(source.split()), len(target.split())), pairs[:k].count((source, target))
        new.append(NewPair(source, target, links, *sizes, first + k, None, occurrence))
    assert fill(store, new) == len(pairs)
