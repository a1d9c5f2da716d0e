"""Declare what the HTTP part needs of the daemon that it belongs to; a test can be one too."""

from collections.abc import Sequence
from typing import Protocol

from hierogram.daemon.library.store import GrammarStore
from hierogram.daemon.serving.health import Condition
from hierogram.samplers.grammar.known_links import KnownLinks


class Service(Protocol):
    """The daemon as the HTTP part sees it; every method may be called from any thread."""

    store: GrammarStore

    def condition(self) -> Condition:
        """Return how the daemon is; quick, and asks no database."""

    def stopping(self) -> bool:
        """Return whether the daemon is on its way out, so that long requests should end."""

    def withdraw(self, pair_ids: Sequence[int]) -> list[int]:
        """Has the pairs and all that they count leave the store; returns the ids of those that were there.

        Waits for that, but not for ever: they may still be there for a while.
        """

    def correct(self, pair_id: int, links: KnownLinks, origin: str) -> bool | None:
        """Puts these links in place of what people have said of a pair's; whether its alignment follows them already.

        None where there is no such pair. Waits, but not for ever. Raises `HumanLinksError`.
        """
