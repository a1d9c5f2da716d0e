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
    order = np.lexsort((keys[:, 1], keys[:, 0]))
    begins = np.ones(len(order), np.bool_)
    begins[1:] = (keys[order][1:] != keys[order][:-1]).any(axis=1)
    firsts = np.empty(len(order), np.int64)
    firsts[order] = order[begins][np.cumsum(begins) - 1]
    return firsts


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
