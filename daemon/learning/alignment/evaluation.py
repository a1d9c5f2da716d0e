"""Alignment error rate: the distance of links from manual ones, sure and possible (Och & Ney 2003)."""

from collections.abc import Iterable
from dataclasses import dataclass

from hierogram.daemon.exceptions import InputError
from hierogram.daemon.text.lines import numbered_lines
from hierogram.daemon.text.rejections import shown

Link = tuple[int, int]

_MOST_DIGITS = 9


@dataclass(frozen=True, slots=True)
class GoldLinks:
    """Manual links of a pair; every sure link is also possible."""

    sure: frozenset[Link]
    possible: frozenset[Link]


@dataclass(frozen=True, slots=True)
class AlignmentScore:
    """With A the links, S the sure and P the possible ones: |A∩P|/|A|, |A∩S|/|S|, and 1 - (|A∩S|+|A∩P|)/(|A|+|S|)."""

    aer: float
    precision: float
    recall: float
    pairs: int
    links: int
    sure: int
    possible: int


def evaluate(gold: Iterable[GoldLinks], found: Iterable[frozenset[Link]]) -> AlignmentScore:
    """Return AER, precision and recall over all pairs together.

    Without links precision is 1, without sure links recall is 1. Raises `ValueError` where one side has more pairs.
    """
    pairs = links = sure = possible = in_sure = in_possible = 0
    for right, here in zip(gold, found, strict=True):
        pairs += 1
        links += len(here)
        sure += len(right.sure)
        possible += len(right.possible)
        in_sure += len(here & right.sure)
        in_possible += len(here & right.possible)
    error = 1 - (in_sure + in_possible) / (links + sure) if links + sure else 0.0
    precision = in_possible / links if links else 1.0
    return AlignmentScore(error, precision, in_sure / sure if sure else 1.0, pairs, links, sure, possible)


def read_gold(path: str) -> list[GoldLinks]:
    """Return manual links, a pair a line: `i-j` is sure, `ipj` possible only; positions count from 0.

    Raises `InputError` where there is anything else.
    """
    gold = []
    for name, number, line in numbered_lines(path):
        sure: set[Link] = set()
        possible: set[Link] = set()
        for word in line.split():
            mark = b"p" if b"p" in word else b"-"
            (possible if mark == b"p" else sure).add(_link(word, mark, name, number))
        gold.append(GoldLinks(frozenset(sure), frozenset(sure | possible)))
    return gold


def links_of(line: str) -> frozenset[Link]:
    """Return the links of a canonical Pharaoh line."""
    return frozenset(_link(word, b"-", "alignment", 1) for word in line.encode().split())


def read_links(path: str) -> list[frozenset[Link]]:
    """Return links to evaluate, Pharaoh lines; what follows ` ||| ` (scores) is passed over. Raises `InputError`."""
    return [
        frozenset(_link(word, b"-", name, number) for word in line.partition(b"|||")[0].split())
        for name, number, line in numbered_lines(path)
    ]


def _link(word: bytes, mark: bytes, name: str, number: int) -> Link:
    source, _, target = word.partition(mark)
    if not (source.isdigit() and target.isdigit() and max(len(source), len(target)) <= _MOST_DIGITS):
        raise InputError(
            f"{name}: line {number}: {shown(word)} is no link: write i-j (in manual links ipj where only possible), "
            "word numbers counted from 0"
        )
    return int(source), int(target)
