"""Making the next item of an iterable in a thread while the last one is worked on."""

from collections.abc import Generator, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")


def ahead(items: Iterable[Item]) -> Generator[Item, None, None]:
    """The items in their order, the next one on its way; what making one raises is raised in its place.

    Closing it waits for the item on its way. So what may take without end to come is not for here.
    """
    iterator = iter(items)
    end = object()
    with ThreadPoolExecutor(1, thread_name_prefix="ahead") as thread:
        coming = thread.submit(next, iterator, end)
        while (item := coming.result()) is not end:
            coming = thread.submit(next, iterator, end)
            yield item  # type: ignore[misc]
