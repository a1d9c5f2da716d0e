"""Concurrent writers in threads."""

from collections.abc import Callable
from threading import Barrier, Thread

WRITERS = 4


def run_concurrently(work: Callable[[int], None]) -> None:
    """Call `work` with each thread number, in threads that start together. Raises the first error of a thread."""
    barrier = Barrier(WRITERS)
    errors: list[BaseException] = []

    def run(number: int) -> None:
        barrier.wait()
        try:
            work(number)
        except BaseException as error:
            errors.append(error)

    threads = [Thread(target=run, args=(number,)) for number in range(WRITERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
