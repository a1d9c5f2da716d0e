"""Rules of two lists matched by their keys."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class Matches(NamedTuple):
    """Rows of two lists with the same key: `ours[k]` and `theirs[k]`; and those whose key the other list lacks."""

    ours: NDArray[np.int64]
    theirs: NDArray[np.int64]
    only_ours: NDArray[np.int64]
    only_theirs: NDArray[np.int64]


def first_of_each_key(keys: NDArray[np.uint64]) -> NDArray[np.int64]:
    """Of each row of keys uint64[n, 2], the first row with that key."""
    high, low = np.ascontiguousarray(keys.T)
    order = np.argsort(high)
    begins = _begins(high[order])
    # Keys are random, so that hardly ever two differ in their low halves alone; the order of these matters then.
    if not (begins | ~_begins(low[order])).all():
        order = np.lexsort((low, high))
        begins = _begins(high[order]) | _begins(low[order])
    starts = np.flatnonzero(begins)
    firsts = np.empty(len(order), np.int64)
    if len(order):
        firsts[order] = np.repeat(np.minimum.reduceat(order, starts), np.diff(np.append(starts, len(order))))
    return firsts


def _begins(ordered: NDArray[np.uint64]) -> NDArray[np.bool_]:
    """Where a number is another than the one before it."""
    begins = np.ones(len(ordered), np.bool_)
    begins[1:] = ordered[1:] != ordered[:-1]
    return begins


def match_keys(ours: NDArray[np.uint64], theirs: NDArray[np.uint64]) -> Matches:
    """The rows of ours, each key once, and of theirs, uint64[n, 2], that have the same key; ascending by theirs."""
    firsts = first_of_each_key(np.concatenate((ours, theirs)))
    of_theirs = firsts[len(ours) :]
    found = of_theirs < len(ours)
    if np.bincount(of_theirs[found]).max(initial=0) > 1:
        # Of theirs with one key, the first is the match.
        found &= first_of_each_key(theirs) == np.arange(len(theirs))
    missing = np.ones(len(ours), np.bool_)
    missing[of_theirs[found]] = False
    return Matches(of_theirs[found], np.flatnonzero(found), np.flatnonzero(missing), np.flatnonzero(~found))
