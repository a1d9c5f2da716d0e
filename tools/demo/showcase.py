"""Selection of the most informative learned rules by kind: reusable rules with more than one word."""

import heapq
from collections.abc import Iterable
from itertools import groupby

from hierogram.samplers.grammar.rules import Rule, Side, parse_side
from hierogram.storage.records.grammar import RuleRow

PHRASE = "phrases"
WORD_ORDER = "word order"
GAP = "rules with a gap"
KINDS = (PHRASE, WORD_ORDER, GAP)

_MIN_USES = 2


def skeleton(side: Side) -> list[int]:
    """Return the side with each run of words replaced by one 0. Nonterminals keep their numbers."""
    return [symbol for symbol, _ in groupby(0 if isinstance(symbol, str) else symbol for symbol in side)]


def classify_rule(rule: Rule) -> str | None:
    """Return the kind of a rule, or None for one word with its context.

    PHRASE: several words on each side, without gaps. WORD_ORDER: words or nonterminals are reordered. GAP: words
    around a gap, in the same order on both sides.
    """
    if not (rule.source_terminals and rule.target_terminals):
        return None
    if not rule.nonterminals:
        return PHRASE if rule.source_terminals > 1 and rule.target_terminals > 1 else None
    source, target = skeleton(rule.source), skeleton(rule.target)
    if source != target:
        return WORD_ORDER
    return GAP if source.count(0) > 1 else None


def most_informative(rules: Iterable[RuleRow], number: int) -> dict[str, list[RuleRow]]:
    """Return for each kind the `number` rules with the highest score: expected uses · p(e|f) · p(f|e).

    Rules with fewer than two expected uses are omitted, because they describe a single sentence.
    """
    best: dict[str, list[tuple[float, int, RuleRow]]] = {kind: [] for kind in KINDS}
    for rule in rules:
        if rule.expected_uses < _MIN_USES:
            continue
        kind = classify_rule(Rule(parse_side(rule.source), parse_side(rule.target)))
        if kind is None:
            continue
        score = rule.expected_uses * rule.p_target_given_source * rule.p_source_given_target
        # The negative id breaks ties, so that rows are never compared.
        heapq.heappush(best[kind], (score, -rule.id, rule))
        if len(best[kind]) > number:
            heapq.heappop(best[kind])
    return {kind: [rule for _, _, rule in sorted(ranked, reverse=True)] for kind, ranked in best.items()}
