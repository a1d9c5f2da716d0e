"""Interface through which the HTTP server uses the daemon; tests can implement it."""

from collections.abc import Sequence
from typing import Protocol

from hierogram.daemon.library.store import GrammarStore
from hierogram.daemon.serving.health import Condition
from hierogram.samplers.grammar.known_links import KnownLinks


class Service(Protocol):
    """The daemon as seen by the HTTP server. All methods are thread-safe."""

    store: GrammarStore

    def condition(self) -> Condition:
        """Return the daemon's condition, quickly and without a database query."""

    def stopping(self) -> bool:
        """Return whether the daemon is shutting down, so that long requests should end."""

    def withdraw(self, pair_ids: Sequence[int]) -> list[int]:
        """Remove the pairs and their counts. Returns the ids of the pairs that existed.

        Waits for the removal up to a time limit, so the pairs may still exist for a while afterwards.
        """

    def correct(self, pair_id: int, links: KnownLinks, origin: str) -> bool | None:
        """Replace the human link corrections of a pair. Returns whether its alignment follows them already.

        Returns None if the pair does not exist. Waits up to a time limit. Raises `HumanLinksError`.
        """
