"""Make the next items in threads while the last one is worked on."""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

Item = TypeVar("Item")
Made = TypeVar("Made")


_END = object()


def ahead(items: Iterable[Item]) -> Generator[Item, None, None]:
    """Yield the items in their order, the next one on its way; what making one raises is raised in its place.

    Closing it waits for the item on its way. So what may take without end to come is not for here.
    """
    iterator = iter(items)
    with ThreadPoolExecutor(1, thread_name_prefix="ahead") as thread:
        coming: Future[Any] = thread.submit(next, iterator, _END)
        while (item := coming.result()) is not _END:
            coming = thread.submit(next, iterator, _END)
            yield item


def made_in_threads(items: Iterable[Item], make: Callable[[Item], Made], threads: int) -> Iterator[Made]:
    """Yield what `make` makes of each item, in the items' order, so many at a time; items are read as there is room."""
    with ThreadPoolExecutor(threads, thread_name_prefix="made") as executor:
        coming: deque[Future[Made]] = deque()
        for item in items:
            coming.append(executor.submit(make, item))
            if len(coming) > threads:
                yield coming.popleft().result()
        while coming:
            yield coming.popleft().result()
