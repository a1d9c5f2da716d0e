"""Alignment error rate (AER) of links, against manual sure and possible links (Och & Ney 2003)."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from hierogram.daemon.exceptions import InputError
from hierogram.daemon.text.inspection import Note
from hierogram.daemon.text.lines import numbered_lines
from hierogram.daemon.text.rejections import quote_bytes

Link = tuple[int, int]
"""Word link: (source position, target position), from 0."""

_MAX_DIGITS = 9


@dataclass(frozen=True, slots=True)
class GoldLinks:
    """Manual links of a pair. `possible` includes all sure links."""

    sure: frozenset[Link]
    possible: frozenset[Link]


@dataclass(frozen=True, slots=True)
class AlignmentScore:
    """Scores from 0 to 1 for links A, sure links S, and possible links P, which include S.

    Precision is |A∩P|/|A|, recall is |A∩S|/|S|, and AER is 1 - (|A∩S|+|A∩P|)/(|A|+|S|). `links`, `sure` and `possible`
    are the sizes of A, S and P. `notes` describe probable errors in the files.
    """

    aer: float
    precision: float
    recall: float
    pairs: int
    links: int
    sure: int
    possible: int
    notes: tuple[Note, ...] = ()


def evaluate(gold: Iterable[GoldLinks], alignments: Iterable[frozenset[Link]]) -> AlignmentScore:
    """Compute AER, precision and recall over all pairs. Raises `ValueError` for unequal numbers of pairs."""
    pairs = links = sure = possible = in_sure = in_possible = 0
    for gold_links, links_found in zip(gold, alignments, strict=True):
        pairs += 1
        links += len(links_found)
        sure += len(gold_links.sure)
        possible += len(gold_links.possible)
        in_sure += len(links_found & gold_links.sure)
        in_possible += len(links_found & gold_links.possible)
    error = 1 - (in_sure + in_possible) / (links + sure) if links + sure else 0.0
    precision = in_possible / links if links else 1.0
    return AlignmentScore(error, precision, in_sure / sure if sure else 1.0, pairs, links, sure, possible)


def evaluate_links(links: str | Path, reference: str | Path, *, one_based: bool = False) -> AlignmentScore:
    """Compare a file of links with manual links of its first lines, see `read_gold`. Raises `InputError`."""
    gold, alignments = read_gold(str(reference), one_based=one_based), read_links(str(links))
    if len(alignments) < len(gold):
        raise InputError(
            f"{links} has {len(alignments):,} lines, but {reference} has {len(gold):,}: each pair with manual links "
            "must be aligned"
        )
    alignments = alignments[: len(gold)]
    score = evaluate(gold, alignments)
    gold_has_first = any(0 in link for pair in gold for link in pair.possible)
    links_have_first = any(0 in link for pair in alignments for link in pair)
    notes = []
    for path, lacks_first, shift, remedy in (
        (reference, links_have_first and not gold_has_first, 1, "use evaluate --of links-from-1"),
        (links, gold_has_first and not links_have_first, -1, "subtract 1 from all word numbers"),
    ):
        if lacks_first:
            # Require a better score after the shift, because links may lack word 0 for other reasons.
            shifted = [frozenset((i + shift, j + shift) for i, j in pair) for pair in alignments]
            if evaluate(gold, shifted).aer < score.aer:
                notes.append(
                    Note("one-based", f"{path}: no link refers to word 0, so words seem to be counted from 1: {remedy}")
                )
    return replace(score, notes=tuple(notes))


def read_gold(path: str, *, one_based: bool = False) -> list[GoldLinks]:
    """Read manual links, one pair per line: `i-j` is sure, `ipj` only possible. Raises `InputError`."""
    gold = []
    first = int(one_based)
    for name, number, line in numbered_lines(path):
        sure: set[Link] = set()
        possible: set[Link] = set()
        for word in line.split():
            mark = b"p" if b"p" in word else b"-"
            source, target = _parse_link(word, mark, name, number)
            if min(source, target) < first:
                raise InputError(
                    f"{name}, line {number}: {quote_bytes(word)} refers to word 0, but words must be counted from 1"
                )
            (possible if mark == b"p" else sure).add((source - first, target - first))
        gold.append(GoldLinks(frozenset(sure), frozenset(sure | possible)))
    return gold


def read_links(path: str) -> list[frozenset[Link]]:
    """Read the links of Pharaoh lines. Text after `|||` is ignored. Raises `InputError`."""
    return [
        frozenset(_parse_link(word, b"-", name, number) for word in line.partition(b"|||")[0].split())
        for name, number, line in numbered_lines(path)
    ]


def _parse_link(word: bytes, mark: bytes, name: str, number: int) -> Link:
    source, _, target = word.partition(mark)
    if not (source.isdigit() and target.isdigit() and max(len(source), len(target)) <= _MAX_DIGITS):
        raise InputError(
            f"{name}, line {number}: {quote_bytes(word)} is not a link: expected i-j (or ipj for a possible manual "
            "link), with word numbers i and j"
        )
    return int(source), int(target)
