"""A pair looked at: itself, those beside it, and how often the rules of its derivation are used."""

from collections.abc import Collection
from dataclasses import dataclass

from hierogram.storage.browsing.reader import Look
from hierogram.storage.browsing.search import MEAN
from hierogram.storage.pairs import pairs
from hierogram.storage.records import PairRecord


def find_pair(look: Look, pair_id: int) -> PairRecord | None:
    """The pair, None if the store does not hold it."""
    look.asked.append(f"SELECT *\n  FROM sentence_pairs\n WHERE id = {pair_id}")
    return pairs.find_pair(look.connection, pair_id)


def neighbours(look: Look, pair_id: int) -> tuple[int | None, int | None]:
    """The ids of the pairs before and after a pair."""
    before = look.row("SELECT max(id) FROM sentence_pairs WHERE id < :pair", False, pair=pair_id)
    after = look.row("SELECT min(id) FROM sentence_pairs WHERE id > :pair", False, pair=pair_id)
    return before[0] if before else None, after[0] if after else None


@dataclass(frozen=True, slots=True)
class Uses:
    """How often all pairs together use a rule: expected, and by their present derivations."""

    mean: float
    count: int


def uses_of(look: Look, rules: Collection[tuple[str, str]]) -> dict[tuple[str, str], Uses]:
    """How often each of the rules is used; those that are not stored are left out."""
    found = {}
    for n, (source, target) in enumerate(sorted(rules)):
        row = look.row(
            f"SELECT {MEAN.format('rules')} AS mean, count FROM rules WHERE source = :source AND target = :target",
            n == 0,
            source=source,
            target=target,
        )
        if row is not None:
            found[source, target] = Uses(*row)
    return found
