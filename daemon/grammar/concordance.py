"""Pairs whose present derivation uses a rule, and the words that it writes: by the index of pairs, else by texts."""

import time
from typing import NamedTuple

from hierogram.daemon.grammar.derivations import derivation_of, own_words
from hierogram.samplers.exceptions import SamplerError
from hierogram.samplers.grammar.kinds import SOURCE, TARGET, TWO_SIDES, notation_of
from hierogram.storage.browsing import rules
from hierogram.storage.browsing.reader import Look
from hierogram.storage.records import PairRow, Settings

SEARCH_SECONDS = 2.0
"""How long pairs are looked for by their texts, where the index has none."""

_CANDIDATES = 50


class Line(NamedTuple):
    """A pair that uses a rule, and the positions of the words that the rule writes in it, on each side."""

    id: int
    source: str
    target: str
    alignment: str
    uses: int
    source_words: list[int]
    target_words: list[int]


class Lines(NamedTuple):
    """A page of pairs. `next` is the id after which to go on (None: there are no more); `indexed` whether the index of
    pairs led to them; `looked_at` up to which id of `last` pairs were looked at, where it did not.
    """

    lines: list[Line]
    next: int | None
    indexed: bool
    looked_at: int
    last: int


def concordance(look: Look, rule: tuple[int | None, str, str], after: int, limit: int) -> Lines:
    """The first pairs above an id whose derivation uses the rule (id, None where no derivation does; sides)."""
    settings = look.settings()
    rule_id, *sides = rule
    last = rules.last_pair(look)
    found: list[Line] = []
    indexed = rule_id is not None and bool(rules.indexed_users(look, rule_id, 0, 1))
    until = time.monotonic() + SEARCH_SECONDS
    position = after
    while position < last:
        if indexed and rule_id is not None:
            ids = rules.indexed_users(look, rule_id, position, _CANDIDATES)
            reached = ids[-1] if len(ids) == _CANDIDATES else last
        elif TWO_SIDES in notation_of(settings.grammar).offers:
            ids, reached = rules.likely_users(look, (sides[0], sides[1]), position, _CANDIDATES)
        else:
            return Lines([], None, indexed, 0, last)
        for row in rules.pairs_with_derivations(look, ids):
            line = line_of(row, settings, sides[0], sides[1])
            if line is not None:
                found.append(line)
                if len(found) == limit:
                    return Lines(found, row.id, indexed, row.id, last)
        position = reached
        if time.monotonic() > until:
            break
    return Lines(found, position if position < last else None, indexed, min(position, last), last)


def line_of(row: PairRow, settings: Settings, source: str, target: str) -> Line | None:
    """The pair with the words of the rule; None where its derivation does not use it, or cannot be read."""
    try:
        uses = derivation_of(row, settings)
    except SamplerError:
        return None
    mine = [use for use in uses if use.source == source and use.target == target]
    if not mine:
        return None
    places = {side: sorted(n for use in mine for n in own_words(use, uses, side)) for side in (SOURCE, TARGET)}
    return Line(row.id, row.source, row.target, row.alignment, len(mine), places[SOURCE], places[TARGET])
