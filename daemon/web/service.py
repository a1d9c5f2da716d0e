"""What the HTTP part needs of the daemon that it belongs to; a test can be one too."""

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from hierogram.daemon.serving.condition import Condition
from hierogram.storage.store import Store


class Service(Protocol):
    """The daemon as the HTTP part sees it; every method may be called from any thread."""

    store: Store

    def condition(self) -> Condition:
        """How the daemon is; quick, and asks no database."""

    def stopping(self) -> bool:
        """Whether the daemon is on its way out, so that long requests should end."""


@runtime_checkable
class Withdrawing(Protocol):
    """A daemon that takes pairs out again."""

    def withdraw(self, pair_ids: Sequence[int]) -> list[int]:
        """Take the pairs and all that they count out of the store; returns the ids of those that were there."""
