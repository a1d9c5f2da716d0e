"""A pair's derivation as people see it: which rules it uses, and how they hang together."""

from collections import Counter
from typing import NamedTuple

from hierogram.daemon.learning.kinds.kind import RuleUse, Span
from hierogram.daemon.learning.kinds.registry import kind_of
from hierogram.samplers.forests.derivations import encode_states
from hierogram.samplers.forests.samples import decode_trees, samples_of
from hierogram.samplers.grammar.columns import join_blobs
from hierogram.storage.records import PairRow, Settings


class Sample(NamedTuple):
    """A derivation among the retained samples of a pair, and how many of them it is."""

    uses: list[RuleUse]
    times: int


def derivation_of(row: PairRow, settings: Settings) -> list[RuleUse]:
    """The pair's present derivation, top-down in source order, the root's rule first; empty where it has none yet.

    Raises `DerivationError` where what is stored does not fit the pair.
    """
    return [] if row.current is None else kind_of(settings).show(row, settings)


def retained_samples(row: PairRow, settings: Settings) -> list[Sample]:
    """The derivations among the pair's retained samples, the most frequent first, then the newest.

    Raises `DerivationError` where what is stored does not fit the pair.
    """
    if not row.ring:
        return []
    kind = kind_of(settings)
    forests = kind.load([row], settings).batch.forests
    trees = samples_of(join_blobs([row.ring]))
    encoded = [
        encode_states(forests, decode_trees(forests, trees.of_rank(rank))).content.tobytes()
        for rank in reversed(range(len(trees.pairs)))
    ]
    return [
        Sample(kind.show(row._replace(current=state), settings), times)
        for state, times in Counter(encoded).most_common()
    ]


def own_words(use: RuleUse, uses: list[RuleUse], side: str) -> list[int]:
    """The positions of the words that a rule itself writes on a side, of all in its span."""
    start, end = _span(use, side)
    inside = {position for child in use.children for position in range(*_span(uses[child], side))}
    return [position for position in range(start, end) if position not in inside]


def _span(use: RuleUse, side: str) -> Span:
    return use.source_span if side == "source" else use.target_span
