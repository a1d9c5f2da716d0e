"""A pair looked at: itself, those beside it, and how often the rules of its derivation are used."""

from collections.abc import Collection

from hierogram.storage.browsing.reader import Look
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


def present_counts(look: Look, rules: Collection[tuple[str, str]]) -> dict[tuple[str, str], int]:
    """How often present derivations use each of the rules; those that none uses are left out."""
    counts = {}
    for n, (source, target) in enumerate(sorted(rules)):
        row = look.row(
            "SELECT count FROM rules WHERE source = :source AND target = :target",
            n == 0,
            source=source,
            target=target,
        )
        if row is not None and row[0]:
            counts[source, target] = int(row[0])
    return counts
