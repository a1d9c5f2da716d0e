"""Things that are compared go on in turn, within one run: what else the machine does then slows all of them alike."""

import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TypeVar

Result = TypeVar("Result")


class Turns:
    """Threads of which one at a time goes on."""

    def __init__(self, number: int) -> None:
        self._order = deque(range(number))
        self._changed = threading.Condition()

    @contextmanager
    def part(self, who: int) -> Iterator[Callable[[], None]]:
        """Within, this thread takes part; what is given lets the next one go on, and returns when it is its turn."""
        self._wait(who)

        def next_one() -> None:
            with self._changed:
                self._order.rotate(-1)
                self._changed.notify_all()
            self._wait(who)

        try:
            yield next_one
        finally:
            with self._changed:
                self._order.remove(who)
                self._changed.notify_all()

    def _wait(self, who: int) -> None:
        with self._changed:
            self._changed.wait_for(lambda: self._order[0] == who)


def in_turn(tasks: list[Callable[[Callable[[], None]], Result]]) -> list[Result]:
    """What the tasks give; each is given what it calls to let the next one go on."""
    turns = Turns(len(tasks))

    def run(who: int) -> Result:
        with turns.part(who) as next_one:
            return tasks[who](next_one)

    with ThreadPoolExecutor(len(tasks)) as executor:
        return list(executor.map(run, range(len(tasks))))
