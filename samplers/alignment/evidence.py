"""What is known of links beside the texts: of some words the only positions that they may be linked to, of others
positions that they may not.
"""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.alignment.bitext import Sides
from hierogram.samplers.compiled.jit import njit_inline
from hierogram.samplers.grammar.known_links import KnownLinks

FREE, EXCEPT, ONLY = 0, 1, 2
"""What a word's positions are: none (any link may be), those that it is not linked to, the only ones that it is."""


class LinkEvidence(NamedTuple):
    """Of each emitted position: `meaning` uint8[N], and its `positions` int16[K] from `offset` int64[N + 1] on.

    Arrays without an entry: nothing is known of any.
    """

    meaning: NDArray[np.uint8]
    offset: NDArray[np.int64]
    positions: NDArray[np.int16]


def no_evidence() -> LinkEvidence:
    """Every link may be."""
    return LinkEvidence(np.zeros(0, np.uint8), np.zeros(0, np.int64), np.zeros(0, np.int16))


def evidence_of(sides: Sides, known: Mapping[int, KnownLinks], emitted_is_target: bool) -> LinkEvidence:
    """The evidence of pairs, by their places in the batch, as one direction sees it.

    A word with fixed links is linked to one of these; else it may be without a link, or have any that is not forbidden.
    """
    if not known:
        return no_evidence()
    words = len(sides.emitted)
    meaning = np.zeros(words, np.uint8)
    of_word: dict[int, list[int]] = {}
    for pair, evidence in known.items():
        start = int(sides.emitted_offset[pair])
        for kind, links in ((EXCEPT, evidence.forbidden), (ONLY, evidence.fixed)):
            here: dict[int, list[int]] = {}
            for source, target in links:
                emitted, conditioning = (target, source) if emitted_is_target else (source, target)
                here.setdefault(start + emitted, []).append(conditioning)
            # Fixed links come last, and take the place of forbidden ones.
            for word, positions in here.items():
                meaning[word] = kind
                of_word[word] = sorted(positions)
    offset = np.zeros(words + 1, np.int64)
    for word, positions in of_word.items():
        offset[word + 1] = len(positions)
    np.cumsum(offset, out=offset)
    flat = [position for word in sorted(of_word) for position in of_word[word]]
    return LinkEvidence(meaning, offset, np.array(flat, np.int16))


@njit_inline
def _listed(evidence, g, i):
    found = False
    for k in range(evidence.offset[g], evidence.offset[g + 1]):
        found |= evidence.positions[k] == i
    return found


@njit_inline
def keep_to_evidence(evidence, g, length, weight):
    """Make the weights 0 that evidence rules out: `weight[0]` is that of no link, `weight[i + 1]` of position i."""
    if len(evidence.meaning) == 0 or evidence.meaning[g] == FREE:
        return
    only = evidence.meaning[g] == ONLY
    if only:
        weight[0] = 0.0
    for i in range(length):
        if _listed(evidence, g, i) != only:
            weight[i + 1] = 0.0
