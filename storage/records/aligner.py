"""Records of the aligner."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from hierogram.samplers.grammar.known_links import KnownLinks


class PairAlignment(NamedTuple):
    """Alignment as a canonical Pharaoh line. Alignments by the aligner have link probabilities."""

    id: int
    alignment: str
    link_probabilities: str | None = None


class PairLinks(NamedTuple):
    """Links of a pair in both directions, int16 each, and the number of aligner sweeps over the pair.

    `sweep` is 0 if the links are from the input. `since` is the `sweep` of the pair when it was read, or None if it had
    no links, so that the store can check that no other process has aligned the pair since.
    """

    id: int
    forward: bytes
    backward: bytes
    sweep: int
    since: int | None


class LinkRow(NamedTuple):
    """Stored pair with its aligner links, which are None before the pair is aligned."""

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
    """Size of a pair: the product of its side lengths in words, and the number of aligner sweeps over the pair."""

    id: int
    cells: int
    sweep: int


class WordCounts(NamedTuple):
    """Fertility counts of a word: its links, and its tokens by number of links. `word` is empty for the null word."""

    side: str
    word: str
    links: int
    fertility_0: int
    fertility_1: int
    fertility_2: int
    fertility_3: int
    fertility_4: int
    fertility_5: int
    fertility_6: int
    fertility_7: int


class TextAlignerCounts(NamedTuple):
    """Counts at a store position for aligning texts, and human links of stored pairs with these texts."""

    position: int
    counts: AlignerCounts
    vocabulary: tuple[int, int]
    known: dict[tuple[str, str], KnownLinks]


class LinkCorrection(NamedTuple):
    """Pair to be re-aligned because its human links have changed for the `version`-th time."""

    id: int
    version: int
    input_alignment: str | None


@dataclass(slots=True)
class AlignerChange:
    """New links and alignments of pairs, and the changes of the aligner's counts.

    `lexicon` contains (source, target, forward, backward), `jumps` (direction, width, count), each key once. Links of
    `withdrawn` pairs are deleted. `corrected_inputs` are human corrections of alignments from the input. `corrected`
    contains (pair id, number of human link changes that the new alignment includes).
    """

    alignments: list[PairAlignment] = field(default_factory=list)
    links: list[PairLinks] = field(default_factory=list)
    withdrawn: list[int] = field(default_factory=list)
    lexicon: list[tuple[str, str, int, int]] = field(default_factory=list)
    words: list[WordCounts] = field(default_factory=list)
    jumps: list[tuple[str, int, int]] = field(default_factory=list)
    corrected_inputs: list[PairAlignment] = field(default_factory=list)
    corrected: list[tuple[int, int]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class AlignerCounts:
    """Counts of the aligner, in the format of `AlignerChange`."""

    lexicon: list[tuple[str, str, int, int]]
    words: list[WordCounts]
    jumps: list[tuple[str, int, int]]
