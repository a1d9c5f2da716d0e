"""Prefetching: the next item is produced while the current one is processed."""

import threading
from collections.abc import Iterator

import pytest

from hierogram.daemon.prefetch import prefetch


def test_items_are_in_order_and_the_next_one_is_prefetched() -> None:
    produced = [threading.Event() for _ in range(4)]

    def items() -> Iterator[int]:
        for number, event in enumerate(produced):
            event.set()
            yield number

    for number in prefetch(items()):
        # This loop has not requested the next item yet.
        assert number == 3 or produced[number + 1].wait(10)
    assert all(event.is_set() for event in produced)
    assert list(prefetch([])) == []


def test_an_error_is_raised_after_the_items_before_it() -> None:
    def items() -> Iterator[int]:
        yield from range(3)
        raise ValueError("the file is damaged")

    prefetched = prefetch(items())
    assert [next(prefetched) for _ in range(3)] == [0, 1, 2]
    with pytest.raises(ValueError, match="damaged"):
        next(prefetched)


def test_stopping_early_leaves_no_thread() -> None:
    may_continue = threading.Event()

    def items() -> Iterator[int]:
        for number in range(100):
            if number == 2:
                may_continue.wait(10)
            yield number

    prefetched = prefetch(items())
    assert next(prefetched) == 0
    assert next(prefetched) == 1
    may_continue.set()
    prefetched.close()
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("prefetch")]
