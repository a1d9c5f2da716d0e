"""Values that the aligner writes and reads."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from hierogram.samplers.grammar.known_links import KnownLinks


class PairAlignment(NamedTuple):
    """The alignment that the aligner gives a pair: a canonical Pharaoh line."""

    id: int
    alignment: str


class PairLinks(NamedTuple):
    """Links that the aligner gives a pair: both directions' links, int16 each, and how many times it has been over it.

    `sweep` is 0 where the links follow from a given alignment. `since` is the sweep that was read (None: there were no
    links), for the store to check that no one else has aligned the pair meanwhile.
    """

    id: int
    forward: bytes
    backward: bytes
    sweep: int
    since: int | None


class LinkRow(NamedTuple):
    """A stored pair with what the aligner thinks of it (None: nothing yet)."""

    id: int
    source: str
    target: str
    alignment: str
    state: str
    aligned_by: str
    forward: bytes | None
    backward: bytes | None
    sweep: int | None


class PairSize(NamedTuple):
    """A pair for the aligner: the product of both sides' lengths in words, and how many times it has been over it."""

    id: int
    cells: int
    sweep: int


class WordCounts(NamedTuple):
    """Of a word that others are linked to (the empty word: no word): links in all, and tokens by number of links."""

    side: str
    word: str
    links: int
    with_0: int
    with_1: int
    with_2: int
    with_3: int
    with_4: int
    with_5: int
    with_6: int
    with_7: int


class AnsweringCounts(NamedTuple):
    """Counts for aligning texts that are not stored, at a position of the store: those of their words, the
    numbers of source and target words that the store knows, and what people say of the links of the same texts.
    """

    position: int
    counts: AlignerCounts
    vocabulary: tuple[int, int]
    known: dict[tuple[str, str], KnownLinks]


class Correction(NamedTuple):
    """A pair whose human links have changed `asked` times, which its alignment has to follow.

    `given` is the alignment that it came with, None where it came without.
    """

    id: int
    asked: int
    given: str | None


@dataclass(slots=True)
class AlignerChange:
    """Pairs that the aligner has been over, and by how much its counts change.

    `lexicon` holds (source, target, forward, backward), `jumps` (direction, width, count), each key once. Links of
    `withdrawn` pairs go. `given` are alignments of pairs that came with one, as people have corrected it;
    `corrected` are pairs whose human links are kept to now, each with the number of changes that this takes in.
    """

    alignments: list[PairAlignment] = field(default_factory=list)
    links: list[PairLinks] = field(default_factory=list)
    withdrawn: list[int] = field(default_factory=list)
    lexicon: list[tuple[str, str, int, int]] = field(default_factory=list)
    words: list[WordCounts] = field(default_factory=list)
    jumps: list[tuple[str, int, int]] = field(default_factory=list)
    given: list[PairAlignment] = field(default_factory=list)
    corrected: list[tuple[int, int]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class AlignerCounts:
    """Counts of the aligner, in the form of `AlignerChange`."""

    lexicon: list[tuple[str, str, int, int]]
    words: list[WordCounts]
    jumps: list[tuple[str, int, int]]
