"""A pair's derivation as people see it: which rules it uses, and how they hang together."""

from collections.abc import Sequence
from dataclasses import dataclass

from hierogram.daemon.learning.batches import load_batch
from hierogram.samplers.forests.batch import State
from hierogram.samplers.forests.derivations import decode_states
from hierogram.samplers.forests.forest import NO_TAIL, Forests
from hierogram.samplers.grammar.rules import Rule, Side
from hierogram.storage.records import PairRow, Settings

Span = tuple[int, int]


@dataclass(frozen=True, slots=True)
class RuleUse:
    """A rule where a derivation uses it: half-open word spans, and the uses that fill its nonterminals 1, 2, …, by
    their place in the derivation."""

    rule: Rule
    source: Span
    target: Span
    children: tuple[int, ...]


def derivation_of(row: PairRow, settings: Settings) -> list[RuleUse]:
    """The pair's present derivation, top-down in source order, the root's rule first; empty where it has none yet.

    Raises `DerivationError` where what is stored does not fit the pair.
    """
    if row.current is None:
        return []
    forests = load_batch([row], settings).batch.forests
    state = decode_states(forests, [row.current])
    root = forests.nodes - 1
    fragments: dict[int, list[int]] = {}
    waiting = [root]
    while waiting:
        head = waiting.pop()
        fragments[head] = _cut_below(forests, state, head)
        waiting += reversed(fragments[head])
    place = {head: number for number, head in enumerate(fragments)}
    source, target = row.source.split(" "), row.target.split(" ")
    uses = []
    for head, tails in fragments.items():
        spans = [_spans(forests, node) for node in (head, *tails)]
        rule = Rule(_side(source, [span for span, _ in spans]), _side(target, [span for _, span in spans]))
        uses.append(RuleUse(rule, *spans[0], tuple(place[tail] for tail in tails)))
    return uses


def _cut_below(forests: Forests, state: State, head: int) -> list[int]:
    """The cut nodes next below a node in the derivation, in source order."""
    cut = []
    waiting = _tails(forests, state, head)
    while waiting:
        node = waiting.pop(0)
        if state.cut[node]:
            cut.append(node)
        else:
            waiting[:0] = _tails(forests, state, node)
    return cut


def _tails(forests: Forests, state: State, node: int) -> list[int]:
    arity = int(forests.node[node]["arity"])
    first = int(forests.node[node]["tail_offset"]) + int(state.edge[node]) * arity
    return [tail for tail in forests.tails[first : first + arity].tolist() if tail != NO_TAIL]


def _spans(forests: Forests, node: int) -> tuple[Span, Span]:
    at = forests.node[node]
    return (
        (int(at["source_start"]), int(at["source_end"])),
        (int(at["target_start"]), int(at["target_end"])),
    )


def _side(words: Sequence[str], spans: Sequence[Span]) -> Side:
    """The words of the first span, the others of which are nonterminals 1, 2, …"""
    (start, end), *inner = spans
    begins = {first: (number, last) for number, (first, last) in enumerate(inner, 1)}
    side: list[str | int] = []
    position = start
    while position < end:
        if position in begins:
            number, position = begins[position]
            side.append(number)
        else:
            side.append(words[position])
            position += 1
    return tuple(side)
