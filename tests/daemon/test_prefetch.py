"""Prefetching: the next item is produced while the current one is processed."""

import threading
from collections.abc import Iterator

import pytest

from hierogram.daemon.prefetch import prefetch


def test_items_are_in_order_and_the_next_one_is_prefetched() -> None:
    made = [threading.Event() for _ in range(4)]

    def items() -> Iterator[int]:
        for number, event in enumerate(made):
            event.set()
            yield number

    for number in prefetch(items()):
        # This loop has not requested the next item yet.
        assert number == 3 or made[number + 1].wait(10)
    assert all(event.is_set() for event in made)
    assert list(prefetch([])) == []


def test_an_error_is_raised_after_the_items_before_it() -> None:
    def items() -> Iterator[int]:
        yield from range(3)
        raise ValueError("the file is damaged")

    for_each = prefetch(items())
    assert [next(for_each) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(ValueError, match="damaged"):
        next(for_each)


def test_stopping_early_leaves_no_thread() -> None:
    going_on = threading.Event()

    def items() -> Iterator[int]:
        for number in range(100):
            if number == 2:
                going_on.wait(10)
            yield number

    taken = prefetch(items())
    assert next(taken) == 0
    assert next(taken) == 1
    going_on.set()
    taken.close()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("prefetch")]
