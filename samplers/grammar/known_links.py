"""Human link corrections of a sentence pair."""

from collections.abc import Iterable
from typing import NamedTuple

Link = tuple[int, int]
"""Positions of a source word and a target word, from 0."""


class KnownLinks(NamedTuple):
    """Links that a pair must have (`fixed`) and links that it must not have (`forbidden`)."""

    fixed: frozenset[Link] = frozenset()
    forbidden: frozenset[Link] = frozenset()

    def impose(self, links: Iterable[Link]) -> list[Link]:
        """Return `links` plus the fixed links, without the forbidden links, sorted."""
        return sorted((set(links) | self.fixed) - self.forbidden)

    def without_fixed_words(self, links: Iterable[Link]) -> list[Link]:
        """Return the links whose source word and target word have no fixed link."""
        source, target = {i for i, _ in self.fixed}, {j for _, j in self.fixed}
        return [(i, j) for i, j in links if i not in source and j not in target]

    def problem(self, source_words: int, target_words: int) -> str | None:
        """Return why a pair of these lengths cannot satisfy the corrections, or None if it can."""
        contradictory = sorted(self.fixed & self.forbidden)
        if contradictory:
            return f"the link {contradictory[0][0]}-{contradictory[0][1]} is both fixed and forbidden"
        for s, t in sorted(self.fixed | self.forbidden):
            if not (0 <= s < source_words and 0 <= t < target_words):
                return f"the link {s}-{t} is out of range: the pair has {source_words} and {target_words} words"
        return None
