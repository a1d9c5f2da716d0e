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
    """Links of a pair in both directions, and the number of aligner sweeps over the pair.

    `forward` contains the linked source position of each target word, `backward` the linked target position of each
    source word, as little-endian int16, -1 if unlinked. `sweep` is 0 if the links are from the input. `expected_sweep`
    is the `sweep` of the pair when it was read, or None if the pair had no links, so that the store can check that no
    other process has aligned the pair since.
    """

    id: int
    forward: bytes
    backward: bytes
    sweep: int
    expected_sweep: int | None


class LinkRow(NamedTuple):
    """Stored pair with its row of `pair_links`. Links and `sweep` are None until the links are counted."""

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
    """Size of a pair: product of its side lengths in words, and number of aligner sweeps (0 if unaligned)."""

    id: int
    cells: int
    sweep: int


class FertilityCounts(NamedTuple):
    """Counts of a word (empty for the null word): links, and tokens with 0, …, 6 or at least 7 links."""

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
    """Counts at a store position, sizes of both vocabularies, and human links by (source, target) text."""

    position: int
    counts: AlignerCounts
    vocabulary_sizes: tuple[int, int]
    human_links: dict[tuple[str, str], KnownLinks]


class LinkCorrection(NamedTuple):
    """Pair whose human links have changed `version` times, and its alignment from the input or None."""

    id: int
    version: int
    input_alignment: str | None


@dataclass(slots=True)
class AlignerCounts:
    """Counts of the aligner, or changes of the counts.

    `lexicon` contains (source, target, forward count, backward count), and `jumps` contains (direction, width, count),
    each key once.
    """

    lexicon: list[tuple[str, str, int, int]] = field(default_factory=list)
    words: list[FertilityCounts] = field(default_factory=list)
    jumps: list[tuple[str, int, int]] = field(default_factory=list)


@dataclass(slots=True)
class AlignerChange(AlignerCounts):
    """New links and alignments of pairs, and the changes of the aligner's counts.

    Links of `withdrawn` pairs are deleted. `corrected_inputs` are the alignments from the input after human
    corrections. `applied_corrections` contains (pair id, `version` of the human links that the new alignment
    satisfies).
    """

    alignments: list[PairAlignment] = field(default_factory=list)
    links: list[PairLinks] = field(default_factory=list)
    withdrawn: list[int] = field(default_factory=list)
    corrected_inputs: list[PairAlignment] = field(default_factory=list)
    applied_corrections: list[tuple[int, int]] = field(default_factory=list)
