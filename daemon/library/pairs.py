"""Stored pairs and trees as immutable objects."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from hierogram.daemon.exceptions import InputError
from hierogram.daemon.learning.derivations import expected_rules, read_derivation
from hierogram.samplers.grammar.known_links import Link
from hierogram.samplers.grammar.rules import RuleUse
from hierogram.storage.browsing.search import UsedRule
from hierogram.storage.records.pairs import PairRow, parse_links
from hierogram.storage.records.settings import Settings
from hierogram.storage.store import Store


@dataclass(frozen=True, eq=False, repr=False)
class StoredPair:
    """Stored pair or tree as it was when read: texts, links and derivation.

    `id` counts from 1. `source` contains the source tokens, or the words of a tree, separated by spaces, and `target`
    the target tokens, or the tree in brackets. `state` is unaligned, waiting, sampling or settled.
    """

    id: int
    source: str
    target: str
    state: str
    _row: PairRow
    _settings: Settings

    @classmethod
    def from_row(cls, row: PairRow, settings: Settings) -> "StoredPair":
        """Return the pair of a row."""
        return cls(row.id, row.source, row.target, row.state, row, settings)

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
