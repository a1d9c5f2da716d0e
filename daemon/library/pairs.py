"""A stored pair, or tree, to be looked at."""

from html import escape

from hierogram.daemon.exceptions import InputError
from hierogram.daemon.learning.alignment.evaluation import links_of
from hierogram.daemon.learning.derivations import derivation_of, expected_rules
from hierogram.daemon.learning.drawing import draw
from hierogram.samplers.grammar.known_links import Link
from hierogram.samplers.grammar.rules import RuleUse
from hierogram.storage.browsing.search import Used
from hierogram.storage.records import PairRow, Settings


class StoredPair:
    """A pair as the store has it: its number, texts, links and derivation. It does not change when the store does."""

    def __init__(self, row: PairRow, settings: Settings) -> None:
        self._row = row
        self._settings = settings

    @property
    def number(self) -> int:
        """The pair's number in the store."""
        return self._row.id

    @property
    def source(self) -> str:
        """The source side, or the words of a tree, with a space between two tokens."""
        return self._row.source

    @property
    def target(self) -> str:
        """The target side, or the tree."""
        return self._row.target

    @property
    def state(self) -> str:
        """Return how far it is: unaligned, waiting, sampling or settled."""
        return self._row.state

    @property
    def links(self) -> list[Link]:
        """Positions of linked words, from 0, sorted."""
        return sorted(links_of(self._row.alignment))

    def derivation(self) -> list[RuleUse]:
        """Return the rules of the present derivation, the root's first; none before the pair is sampled."""
        return derivation_of(self._row, self._settings)

    def expected_rules(self) -> list[Used]:
        """Return the rules that the pair expects to use, averaged over its sweeps, the most expected first."""
        return expected_rules(self._row, self._settings)

    def __repr__(self) -> str:
        return f"StoredPair({self.number}: {self.source!r}, {self.target!r}, {self._row.alignment!r})"

    def _repr_html_(self) -> str:
        """Return texts and links, and the derivation as a picture, for a notebook."""
        text = f"<p>{escape(self.source)}<br>{escape(self.target)}<br>{escape(self._row.alignment)}</p>"
        try:
            return text + draw(self.derivation())
        except InputError as error:
            return f"{text}<p>{escape(str(error))}</p>"
