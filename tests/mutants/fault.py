"""What a fault is."""

from typing import NamedTuple


class Change(NamedTuple):
    """In `module`, below samplers/, or with its part (daemon/…), `before` (which stands there once) becomes `after`."""

    module: str
    before: str
    after: str


class Fault(NamedTuple):
    """In `module`, below samplers/, or with its part (daemon/…), `right` (which stands there once) becomes `wrong`;
    `tests` must fail then.

    `tests` are arguments of pytest. `extremes`: sound changes that let small examples reach an extreme.
    """

    name: str
    module: str
    right: str
    wrong: str
    tests: tuple[str, ...]
    extremes: tuple[Change, ...] = ()
