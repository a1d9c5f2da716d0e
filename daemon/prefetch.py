"""Preparation of the next items in threads."""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

Item = TypeVar("Item")
Made = TypeVar("Made")


_END = object()


def prefetch(items: Iterable[Item]) -> Generator[Item, None, None]:
    """Yield the items in order while preparing the next one. Closing waits for the item in preparation."""
    iterator = iter(items)
    with ThreadPoolExecutor(1, thread_name_prefix="ahead") as thread:
        coming: Future[Any] = thread.submit(next, iterator, _END)
        while (item := coming.result()) is not _END:
            coming = thread.submit(next, iterator, _END)
            yield item


def map_in_threads(items: Iterable[Item], make: Callable[[Item], Made], threads: int) -> Iterator[Made]:
    """Yield `make(item)` for each item in order, computed in threads. Reads an item when a thread is free."""
    with ThreadPoolExecutor(threads, thread_name_prefix="made") as executor:
        coming: deque[Future[Made]] = deque()
        for item in items:
            coming.append(executor.submit(make, item))
            if len(coming) > threads:
                yield coming.popleft().result()
        while coming:
            yield coming.popleft().result()
