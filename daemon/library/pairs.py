"""Stored pairs and trees as immutable objects."""

from collections.abc import Iterator, Sequence

from hierogram.daemon.exceptions import InputError
from hierogram.daemon.learning.derivations import expected_rules, read_derivation
from hierogram.samplers.grammar.known_links import Link
from hierogram.samplers.grammar.rules import RuleUse
from hierogram.storage.browsing.search import UsedRule
from hierogram.storage.records.pairs import PairRow, parse_links
from hierogram.storage.records.settings import Settings
from hierogram.storage.store import Store


class StoredPair:
    """Stored pair or tree as it was when read: id, texts, links and derivation."""

    def __init__(self, row: PairRow, settings: Settings) -> None:
        self._row = row
        self._settings = settings

    @property
    def id(self) -> int:
        """Id in the store, from 1."""
        return self._row.id

    @property
    def source(self) -> str:
        """Source tokens, or the words of a tree, separated by spaces."""
        return self._row.source

    @property
    def target(self) -> str:
        """Target tokens, separated by spaces, or the tree in brackets."""
        return self._row.target

    @property
    def state(self) -> str:
        """Learning state: unaligned, waiting, sampling or settled."""
        return self._row.state

    @property
    def links(self) -> list[Link]:
        """Word links, sorted, as token positions (source, target) from 0."""
        return sorted(parse_links(self._row.alignment))

    @property
    def link_probabilities(self) -> dict[Link, float] | None:
        """Probability of each link, or None if the aligner did not compute the links."""
        probabilities = self._row.link_probabilities
        if probabilities is None:
            return None
        return dict(zip(parse_links(self._row.alignment), map(float, probabilities.split()), strict=True))

    def derivation(self) -> list[RuleUse]:
        """Return the rules of the current derivation, root first, or [] before the pair is sampled."""
        return read_derivation(self._row, self._settings)

    def expected_rules(self) -> list[UsedRule]:
        """Return the pair's rules, most used first, with expected (during the burn-in: current) uses."""
        return expected_rules(self._row, self._settings)

    def __repr__(self) -> str:
        return f"StoredPair({self.id}: {self.source!r}, {self.target!r}, {self._row.alignment!r})"


def rows_by_id(store: Store, ids: Sequence[int]) -> Iterator[PairRow]:
    """Return the pairs or trees with these ids, in id order. Raises `InputError` if a pair does not exist."""
    rows = store.pairs_by_id(ids)
    if missing := set(ids) - {row.id for row in rows}:
        raise InputError(f"{store.url}: pair {min(missing)} not found")
    return iter(rows)
