"""A pair's derivation as people see it: which rules it uses, and how they hang together."""

from typing import NamedTuple

from hierogram.daemon.learning.kinds.kind import Drawn, RuleUse, Span
from hierogram.daemon.learning.kinds.registry import kind_of
from hierogram.samplers.grammar.columns import join_blobs
from hierogram.samplers.grammar.uses import ONE_USE
from hierogram.storage.records import PairRow, Settings


class ExpectedRule(NamedTuple):
    """A rule that a pair expects to use, and how often."""

    source: str
    target: str
    mean: float


def derivation_of(row: PairRow, settings: Settings) -> list[RuleUse]:
    """The pair's present derivation, top-down in source order, the root's rule first; empty where it has none yet.

    Raises `DerivationError` where what is stored does not fit the pair.
    """
    return [] if row.current is None else kind_of(settings).show(row, settings)


def expected_rules(row: PairRow, settings: Settings) -> list[ExpectedRule]:
    """The rules that the pair expects to use, averaged over its sweeps, the most expected first.

    Raises `DerivationError` where what is stored does not fit the pair.
    """
    if row.current is None:
        return []
    loaded = kind_of(settings).load([row], settings)
    trees = loaded.trees(loaded.decode(join_blobs([row.current])))
    rules = loaded.rule_deltas(None, Drawn(trees, join_blobs([row.expected_uses or b""])), settings)
    expected = [
        ExpectedRule(rules.sources.string(row), rules.targets.string(row), uses / ONE_USE)
        for row, uses in enumerate(rules.sampled_counts.tolist())
        if uses > 0
    ]
    return sorted(expected, key=lambda rule: (-rule.mean, rule.source, rule.target))


def own_words(use: RuleUse, uses: list[RuleUse], side: str) -> list[int]:
    """The positions of the words that a rule itself writes on a side, of all in its span."""
    start, end = _span(use, side)
    inside = {position for child in use.children for position in range(*_span(uses[child], side))}
    return [position for position in range(start, end) if position not in inside]


def _span(use: RuleUse, side: str) -> Span:
    return use.source_span if side == "source" else use.target_span
