"""Rules in the derivation of a pair, and the pairs that use a rule."""

import time
from operator import attrgetter
from typing import NamedTuple

from hierogram.daemon.learning.kinds.kind import find_kind, load_stored
from hierogram.samplers.exceptions import SamplerError
from hierogram.samplers.grammar.kinds import SOURCE, TARGET, TWO_SIDES, find_grammar_kind
from hierogram.samplers.grammar.rules import RuleUse
from hierogram.storage.browsing import details
from hierogram.storage.browsing.reader import ReadTransaction
from hierogram.storage.browsing.search import UsedRule
from hierogram.storage.pairs.pairs import pairs_by_id
from hierogram.storage.records.pairs import PairRow
from hierogram.storage.records.settings import Settings


def read_derivation(row: PairRow, settings: Settings) -> list[RuleUse]:
    """Return the rules of a derivation, top-down, or [] without one. Raises `DamagedPairsError`."""
    if row.current is None and row.is_intact():
        return []
    load_stored([row], settings)
    return find_kind(settings).read_derivation(row, settings)


def expected_rules(row: PairRow, settings: Settings) -> list[UsedRule]:
    """Return the rules of a pair with expected uses (before averages: current uses), most used first."""
    if row.current is None and row.is_intact():
        return []
    rules = load_stored([row], settings).rules()
    rows = zip(rules.source.strings(), rules.target.strings(), rules.expected_uses.tolist(), strict=True)
    expected = [UsedRule(source, target, uses) for source, target, uses in rows if uses > 0]
    return sorted(expected, key=lambda rule: (-rule.expected_uses, rule.source, rule.target))


def terminal_positions(use: RuleUse, uses: list[RuleUse], side: str) -> list[int]:
    """Return the positions of a rule's terminals on side `source` or `target`. `uses` is its derivation."""
    span = attrgetter(f"{side}_span")
    start, end = span(use)
    inside = {position for child in use.children for position in range(*span(uses[child]))}
    return [position for position in range(start, end) if position not in inside]


SEARCH_SECONDS = 2.0
"""Time limit in seconds of the search for one page of a concordance."""
_CANDIDATES = 50
"""Number of pairs that are read at once."""


class ConcordanceRow(NamedTuple):
    """Pair that uses a rule `uses` times, with positions of the rule's terminals on each side."""

    id: int
    source: str
    target: str
    alignment: str
    uses: int
    source_positions: list[int]
    target_positions: list[int]


class ConcordancePage(NamedTuple):
    """Page of a concordance: pairs that use a rule, in id order.

    Pass `next` as `after` to get the next page; it is None on the last page. `indexed` is True if the index of pairs by
    rule was used. All pairs up to the id `searched_to` were searched. `last` is the id of the newest pair.
    """

    lines: list[ConcordanceRow]
    next: int | None
    indexed: bool
    searched_to: int
    last: int


def concordance(
    transaction: ReadTransaction, rule_id: int | None, source: str, target: str, after: int, limit: int
) -> ConcordancePage:
    """Search up to `limit` pairs with ids above `after` whose derivation uses a rule.

    `rule_id` is None for a rule that is not stored, which derivations may use since the last commit. The search ends
    after about `SEARCH_SECONDS`, so the page may have fewer pairs although more pairs use the rule. A rule that is not
    indexed is searched only if it has two sides. Otherwise, the page is empty and `searched_to` is 0.
    """
    settings = transaction.settings()
    last = transaction.state().last_pair_id
    lines: list[ConcordanceRow] = []
    indexed = rule_id is not None and bool(details.indexed_supporting_pairs(transaction, rule_id, 0, 1))
    deadline = time.monotonic() + SEARCH_SECONDS
    position = after
    while position < last and time.monotonic() <= deadline:
        if indexed and rule_id is not None:
            ids = details.indexed_supporting_pairs(transaction, rule_id, position, _CANDIDATES)
            reached = ids[-1] if len(ids) == _CANDIDATES else last
        elif TWO_SIDES in find_grammar_kind(settings.grammar).capabilities:
            ids, reached = details.likely_supporting_pairs(transaction, (source, target), position, _CANDIDATES)
        else:
            return ConcordancePage([], None, indexed, 0, last)
        for row in pairs_by_id(transaction.connection, ids):
            line = _make_row(row, settings, source, target)
            if line is not None:
                lines.append(line)
                if len(lines) == limit:
                    return ConcordancePage(lines, row.id, indexed, row.id, last)
        position = reached
    return ConcordancePage(lines, position if position < last else None, indexed, min(position, last), last)


def _make_row(row: PairRow, settings: Settings, source: str, target: str) -> ConcordanceRow | None:
    """Return the row of a pair, or None if its derivation is unreadable or does not use the rule."""
    try:
        uses = read_derivation(row, settings)
    except SamplerError:
        return None
    matching = [use for use in uses if use.source == source and use.target == target]
    if not matching:
        return None
    positions = (
        sorted(n for use in matching for n in terminal_positions(use, uses, side)) for side in (SOURCE, TARGET)
    )
    return ConcordanceRow(row.id, row.source, row.target, row.alignment, len(matching), *positions)
