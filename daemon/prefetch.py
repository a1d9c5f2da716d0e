"""Making the next item of an iterable in a thread while the last one is worked on."""

from collections.abc import Generator, Iterable
from concurrent.futures import Future, ThreadPoolExecutor
from enum import Enum
from typing import TypeVar

Item = TypeVar("Item")


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
