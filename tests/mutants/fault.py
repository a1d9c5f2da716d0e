"""Types of faults."""

from typing import NamedTuple


class Change(NamedTuple):
    """Replacement of `before`, which occurs once in `module`, by `after`.

    `module` is relative to samplers/, or begins with another part (daemon/…).
    """

    module: str
    before: str
    after: str


class Fault(NamedTuple):
    """Replacement of `original`, which occurs once in `module`, by `mutated`, after which `tests` must fail.

    `module` is relative to samplers/, or begins with another part (daemon/…). `tests` are arguments of pytest.
    `extremes` are correct changes that let small examples reach an extreme case.
    """

    name: str
    module: str
    original: str
    mutated: str
    tests: tuple[str, ...]
    extremes: tuple[Change, ...] = ()
