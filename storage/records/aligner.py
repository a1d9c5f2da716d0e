"""Records of the aligner."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from hierogram.samplers.grammar.known_links import KnownLinks


class PairAlignment(NamedTuple):
    """A canonical Pharaoh line, and the probability of each link, separated by spaces (None: not by the aligner)."""

    id: int
    alignment: str
    link_probabilities: str | None = None


class PairLinks(NamedTuple):
    """Links of a pair in both directions, int16 each, and the number of aligner sweeps over the pair.

    `sweep` is 0 if the links come from a given alignment. `since` is the sweep of the links that were read (None: no
    links), by which the store checks that no other process has aligned the pair since.
    """

    id: int
    forward: bytes
    backward: bytes
    sweep: int
    since: int | None


class LinkRow(NamedTuple):
    """A stored pair with its aligner links (None: not aligned yet)."""

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
    """Size of a pair: the product of both sides' lengths in words, and the number of aligner sweeps over it."""

    id: int
    cells: int
    sweep: int


class WordCounts(NamedTuple):
    """Fertility counts of a word (empty: the null word): its total links, and its tokens by number of links."""

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
    """Counts for aligning texts that are not stored, as of a store position.

    `counts` are the aligner counts of the texts' words, `vocabulary` the numbers of source and target words in the
    store, `known` the human links of stored pairs with the same texts.
    """

    position: int
    counts: AlignerCounts
    vocabulary: tuple[int, int]
    known: dict[tuple[str, str], KnownLinks]


class LinkCorrection(NamedTuple):
    """A pair whose human links changed `version` times, to be re-aligned. `input_alignment`: None if not given."""

    id: int
    version: int
    input_alignment: str | None


@dataclass(slots=True)
class AlignerChange:
    """New links and alignments of pairs, and the changes of the aligner's counts.

    `lexicon` holds (source, target, forward, backward), `jumps` (direction, width, count), each key once. Links of
    `withdrawn` pairs are deleted. `corrected_inputs` holds human corrections of alignments that came with the input.
    `corrected` holds (pair id, number of human link changes that the new alignment includes).
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
