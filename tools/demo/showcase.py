"""Showcase: learned rules that show a person best what was learned: reusable ones of more than a word, by kind."""

import heapq
from collections.abc import Iterable
from itertools import groupby

from hierogram.samplers.grammar.rules import Rule, Side, parse_side
from hierogram.storage.records import RuleRow

PHRASE = "phrases"
WORD_ORDER = "word order"
GAP = "words around a gap"
KINDS = (PHRASE, WORD_ORDER, GAP)

_FEWEST_USES = 2


def skeleton(side: Side) -> list[int]:
    """Return the side with each run of words as one 0 between its nonterminals' numbers."""
    return [symbol for symbol, _ in groupby(0 if isinstance(symbol, str) else symbol for symbol in side)]


def kind_of(rule: Rule) -> str | None:
    """Return what the rule shows, None if it is only a word with its surroundings.

    PHRASE: several words on each side, translated as one; WORD_ORDER: words or nonterminals change places; GAP: words
    that belong together with something between them, in the same order on both sides.
    """
    if not (rule.source_terminals and rule.target_terminals):
        return None
    if not rule.nonterminals:
        return PHRASE if rule.source_terminals > 1 and rule.target_terminals > 1 else None
    source, target = skeleton(rule.source), skeleton(rule.target)
    if source != target:
        return WORD_ORDER
    return GAP if source.count(0) > 1 else None


def most_telling(rules: Iterable[RuleRow], number: int) -> dict[str, list[RuleRow]]:
    """Return for each kind the `number` rules of highest count · p(e|f) · p(f|e): often used, and sure both ways.

    Rules used only once tell of one sentence and are left out.
    """
    best: dict[str, list[tuple[float, int, RuleRow]]] = {kind: [] for kind in KINDS}
    for rule in rules:
        if rule.expected_uses < _FEWEST_USES:
            continue
        kind = kind_of(Rule(parse_side(rule.source), parse_side(rule.target)))
        if kind is None:
            continue
        score = rule.expected_uses * rule.p_target_given_source * rule.p_source_given_target
        # The negative id breaks ties, so that rows are never compared.
        heapq.heappush(best[kind], (score, -rule.id, rule))
        if len(best[kind]) > number:
            heapq.heappop(best[kind])
    return {kind: [rule for _, _, rule in sorted(found, reverse=True)] for kind, found in best.items()}
