"""Which rules a derivation of one pair uses, and how they hang together: the walk that all kinds share."""

from typing import NamedTuple

from hierogram.samplers.forests.batch import State
from hierogram.samplers.forests.derivations import decode_states
from hierogram.samplers.forests.forest import NO_TAIL, Forests
from hierogram.samplers.grammar.columns import join_blobs


class Expansion(NamedTuple):
    """A rule of a derivation: its head, the cut nodes below it in source order, and the nodes inside it, head first."""

    head: int
    tails: tuple[int, ...]
    inside: tuple[int, ...]


def expansions_of(forests: Forests, current: bytes) -> tuple[State, list[Expansion]]:
    """The derivation of the only pair of a batch, top-down in source order; raises `DerivationError`."""
    state = decode_states(forests, join_blobs([current]))
    expansions = []
    pending = [forests.nodes - 1]
    while pending:
        head = pending.pop()
        inside, tails = [head], []
        below = tails_of(forests, state, head)
        while below:
            node = below.pop(0)
            if state.cut[node]:
                tails.append(node)
            else:
                inside.append(node)
                below[:0] = tails_of(forests, state, node)
        expansions.append(Expansion(head, tuple(tails), tuple(inside)))
        pending += reversed(tails)
    return state, expansions


def tails_of(forests: Forests, state: State, node: int) -> list[int]:
    """The nodes right below a node in the derivation, in source order."""
    arity = int(forests.node[node]["arity"])
    first = int(forests.node[node]["tail_offset"]) + int(state.edge[node]) * arity
    return [tail for tail in forests.tails[first : first + arity].tolist() if tail != NO_TAIL]


def places_of(expansions: list[Expansion]) -> dict[int, int]:
    """The place of each head in the derivation."""
    return {expansion.head: place for place, expansion in enumerate(expansions)}
