"""Which nonterminals of the two sides of a rule belong together: numbered anew, in source order."""

import numpy as np

from hierogram.samplers.compiled.jit import njit
from hierogram.samplers.decoding.grammar import RuleColumns

NO_NUMBER_OF_ITS_OWN = np.int32(-(1 << 20))
"""A nonterminal whose number the links say."""

_MOST_GAPS = 64


@njit
def _number_gaps(columns, numbers):
    """Number nonterminals in source order, int32[64] `numbers` is scratch; the first rule where they do not fit, or -1.

    Links of nonterminals that say which belong together lose their meaning; other links stay.
    """
    for rule in range(len(columns.source_start) - 1):
        source = columns.source[columns.source_start[rule] : columns.source_start[rule + 1]]
        target = columns.target[columns.target_start[rule] : columns.target_start[rule + 1]]
        gaps = 0
        for k in range(len(source)):
            if source[k] < 0:
                if gaps == _MOST_GAPS:
                    return rule
                numbers[gaps] = source[k]
                if source[k] == NO_NUMBER_OF_ITS_OWN:
                    for link in range(columns.link_start[rule], columns.link_start[rule + 1]):
                        other = columns.links[link, 1]
                        if columns.links[link, 0] == k and other < len(target) and target[other] == source[k]:
                            target[other] = -(gaps + 1) - _MOST_GAPS
                gaps += 1
                source[k] = -gaps
        filled = 0
        for k in range(len(target)):
            if target[k] >= 0:
                continue
            gap = np.int64(-1)
            if NO_NUMBER_OF_ITS_OWN < target[k] < -_MOST_GAPS:
                gap = -np.int64(target[k]) - _MOST_GAPS - 1
            else:
                for other in range(gaps):
                    if numbers[other] == target[k] and target[k] != NO_NUMBER_OF_ITS_OWN:
                        gap = np.int64(other)
            if gap < 0 or gap >= gaps or (filled >> gap) & 1:
                return rule
            filled |= np.int64(1) << gap
            target[k] = -(gap + 1)
        if filled != (np.int64(1) << gaps) - 1:
            return rule
    return -1


@njit
def _keep_word_links(columns, start):
    """Take links of nonterminals out; `start` int64[R+1] is where each rule's then begin."""
    taken = 0
    for rule in range(len(start) - 1):
        start[rule] = taken
        for link in range(columns.link_start[rule], columns.link_start[rule + 1]):
            i = columns.source_start[rule] + columns.links[link, 0]
            j = columns.target_start[rule] + columns.links[link, 1]
            if i >= columns.source_start[rule + 1] or j >= columns.target_start[rule + 1]:
                return rule
            if columns.source[i] >= 0 and columns.target[j] >= 0:
                columns.links[taken, 0] = columns.links[link, 0]
                columns.links[taken, 1] = columns.links[link, 1]
                taken += 1
    start[len(start) - 1] = taken
    return -1


def with_numbered_gaps(columns: RuleColumns) -> tuple[RuleColumns, int]:
    """Rules whose nonterminals are numbered 1, 2, … in source order, and whose links are those of words alone.

    Before, nonterminals that belong together have the same number, or `NO_NUMBER_OF_ITS_OWN` and a link. The second is
    the first rule whose nonterminals or links do not fit its sides, -1 where all do. Changes the sides in place.
    """
    fault = int(_number_gaps(columns, np.zeros(_MOST_GAPS, np.int32)))
    if fault >= 0:
        return columns, fault
    start = np.zeros(len(columns.link_start), np.int64)
    fault = int(_keep_word_links(columns, start))
    return columns._replace(links=columns.links[: start[-1]], link_start=start), fault
