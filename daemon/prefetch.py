"""Iteration over items that threads prepare in advance."""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

_END = object()


def prefetch(items: Iterable[Item]) -> Generator[Item, None, None]:
    """Yield the items in order while a thread prepares the next item. Closing waits for the thread."""
    iterator = iter(items)
    with ThreadPoolExecutor(1, thread_name_prefix="prefetch") as thread:
        next_item: Future[Any] = thread.submit(next, iterator, _END)
        while (item := next_item.result()) is not _END:
            next_item = thread.submit(next, iterator, _END)
            yield item


def map_in_threads(
    items: Iterable[Item], function: Callable[[Item], Result], threads: int, ahead: int = 1
) -> Iterator[Result]:
    """Yield `function(item)` in order, computed in threads. Reads `ahead` items ahead per thread."""
    with ThreadPoolExecutor(threads, thread_name_prefix="map") as executor:
        pending: deque[Future[Result]] = deque()
        for item in items:
            pending.append(executor.submit(function, item))
            if len(pending) > ahead * threads:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
