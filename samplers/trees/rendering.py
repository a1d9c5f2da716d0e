"""Fragments as text: the symbols of rule-count deltas of tree derivations become bracket notation."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.counts.deltas import CountDeltas
from hierogram.samplers.grammar.symbols import LABEL_STEP, OPEN_LABEL


def render_fragments(
    deltas: CountDeltas, chosen: NDArray[np.int64], labels: Sequence[str], words: Sequence[str]
) -> tuple[list[str], list[str]]:
    """Root labels and fragments, `(NP (DT the) (NN))`, of the chosen entries of rule-count deltas.

    `labels` by label number, `words` by word number.
    """
    roots: list[str] = []
    texts: list[str] = []
    starts = deltas.starts[chosen].tolist()
    sizes = deltas.source_sizes[chosen].tolist()
    for start, size in zip(starts, sizes, strict=True):
        symbols = deltas.symbols[start : start + size].tolist()
        pieces: list[str] = []
        for symbol in symbols:
            if symbol >= 0:
                pieces.append(" " + words[symbol])
            elif symbol <= OPEN_LABEL:
                label, closing = divmod(OPEN_LABEL - symbol, 2)
                pieces.append(")" if closing else f" ({labels[label]}")
            else:
                pieces.append(f" ({labels[-symbol // LABEL_STEP]})")
        roots.append(labels[(OPEN_LABEL - symbols[0]) // 2])
        texts.append("".join(pieces)[1:])
    return roots, texts


def internal_nodes(deltas: CountDeltas, chosen: NDArray[np.int64]) -> list[int]:
    """How many expansions each of the chosen fragments is made of."""
    ends = (deltas.starts[chosen] + deltas.source_sizes[chosen]).tolist()
    opening = deltas.symbols <= OPEN_LABEL
    opening &= (OPEN_LABEL - deltas.symbols) % 2 == 0
    cumulated = np.concatenate(([0], np.cumsum(opening)))
    starts = deltas.starts[chosen].tolist()
    return [int(cumulated[end] - cumulated[start]) for start, end in zip(starts, ends, strict=True)]
