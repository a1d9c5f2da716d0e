"""Making the next items in threads while the last one is worked on."""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from enum import Enum
from typing import TypeVar

Item = TypeVar("Item")
Made = TypeVar("Made")


class _End(Enum):
    END = 0


def ahead(items: Iterable[Item]) -> Generator[Item, None, None]:
    """The items in their order, the next one on its way; what making one raises is raised in its place.

    Closing it waits for the item on its way. So what may take without end to come is not for here.
    """
    iterator = iter(items)
    with ThreadPoolExecutor(1, thread_name_prefix="ahead") as thread:
        coming: Future[Item | _End] = thread.submit(next, iterator, _End.END)
        while not isinstance(item := coming.result(), _End):
            coming = thread.submit(next, iterator, _End.END)
            yield item


def made_in_threads(items: Iterable[Item], make: Callable[[Item], Made], threads: int) -> Iterator[Made]:
    """What `make` makes of each item, in the items' order, so many at a time; items are read as there is room."""
    with ThreadPoolExecutor(threads, thread_name_prefix="made") as executor:
        coming: deque[Future[Made]] = deque()
        for item in items:
            coming.append(executor.submit(make, item))
            if len(coming) > threads:
                yield coming.popleft().result()
        while coming:
            yield coming.popleft().result()
