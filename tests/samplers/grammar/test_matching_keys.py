"""Rows of one list that are represented by equal keys, and rows of two lists that are matched by key."""

import numpy as np

from hierogram.samplers.grammar.keys import first_rows_by_key, match_keys


def keys(*pairs: tuple[int, int]) -> np.ndarray:
    return np.array(pairs, np.uint64).reshape(-1, 2)


def test_rows_with_equal_keys_are_represented_by_the_first() -> None:
    high = (1 << 64) - 1
    rows = keys((high, 1), (2, 2), (high, 1), (high, 2), (2, 2), (1, high))
    assert first_rows_by_key(rows).tolist() == [0, 1, 0, 3, 1, 5]
    assert first_rows_by_key(keys()).tolist() == []
    many = keys(*((row % 5, row % 3 // 2) for row in range(200)))
    expected = {}
    assert first_rows_by_key(many).tolist() == [expected.setdefault(tuple(key), row) for row, key in enumerate(many)]


def test_each_row_is_matched_at_most_once() -> None:
    ours, theirs = keys((1, 1), (2, 2), (3, 3)), keys((9, 9), (3, 3), (1, 1), (3, 3))
    found = match_keys(ours, theirs)
    assert list(zip(found.ours.tolist(), found.theirs.tolist(), strict=True)) == [(2, 1), (0, 2)]
    assert (found.only_ours.tolist(), found.only_theirs.tolist()) == ([1], [0, 3])
    empty = match_keys(keys(), theirs)
    assert (len(empty.ours), empty.only_theirs.tolist()) == (0, [0, 1, 2, 3])
