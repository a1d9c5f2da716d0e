"""What the store can do with links that people fix or forbid."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

from hierogram.storage.aligner import aligner, human_links
from hierogram.storage.database.access import Access
from hierogram.storage.database.connection import reading
from hierogram.storage.database.transactions import read_state, writing
from hierogram.storage.records import AnsweringCounts

if TYPE_CHECKING:
    from hierogram.samplers.grammar.known_links import KnownLinks
    from hierogram.storage.records import Correction


class HumanLinks(Access):
    """Human links of pairs."""

    def set_human_links(self, pair_id: int, links: KnownLinks, origin: str) -> bool:
        """Puts these links in place of all that people have said of the pair's; whether there is such a pair.

        Whoever writes the grammar aligns the pair again, see `pending_corrections`. Raises `HumanLinksError` where the
        pair cannot have them.
        """
        with writing(self._engine, self._memory) as transaction:
            return human_links.set_links(transaction, pair_id, links, origin)

    def human_links(self, ids: Collection[int]) -> dict[int, KnownLinks]:
        """What people say of the links of those of the pairs of which they say something, by id."""
        with reading(self._engine) as connection:
            return human_links.known_links(connection, ids)

    def answering(
        self,
        words: tuple[Collection[str], Collection[str]],
        texts: Sequence[tuple[str, str]],
        before: AnsweringCounts | None = None,
    ) -> AnsweringCounts:
        """What aligning these texts needs, of one state of the store: the aligner's counts of source and target words,
        and what people say of stored pairs with the same texts.

        `before` is what was found before: where the store has not changed since, its jumps are not read again.
        """
        with reading(self._engine) as connection:
            state = read_state(connection)
            jumps = before.counts.jumps if before is not None and before.position == state.position else None
            return AnsweringCounts(
                state.position,
                aligner.aligner_counts(connection, *words, jumps),
                (state.source_types, state.target_types),
                human_links.known_links_of_texts(connection, texts),
            )

    def human_links_of_texts(self, texts: Sequence[tuple[str, str]]) -> dict[tuple[str, str], KnownLinks]:
        """The same of the stored pairs with these texts, by text."""
        with reading(self._engine) as connection:
            return human_links.known_links_of_texts(connection, texts)

    def pending_corrections(self, limit: int) -> list[Correction]:
        """Aligned pairs whose alignment does not follow their human links yet, in id order."""
        with reading(self._engine) as connection:
            return human_links.pending_corrections(connection, limit)

    def corrections_of(self, ids: Collection[int]) -> list[Correction]:
        """Those of the pairs that have human links, or had them until now, in id order."""
        with reading(self._engine) as connection:
            return human_links.corrections_of(connection, ids)

    def is_corrected(self, pair_id: int) -> bool:
        """Whether the pair's alignment follows its human links."""
        with reading(self._engine) as connection:
            return not human_links.is_pending(connection, pair_id)
