"""A bitext in three parts: to learn from, to tune on, to test with; no source sentence is in two of them."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from hierogram.daemon.alignment.files import read_sentences, write_lines
from hierogram.daemon.exceptions import InputError


@dataclass(frozen=True, slots=True)
class HeldOut:
    """Source sentences, and of each its references; where there are fewer of some, the others are empty."""

    sources: list[str]
    references: list[list[str]]

    def columns(self) -> list[list[str]]:
        """References as files have them: the first of each sentence, the second, …"""
        most = max(map(len, self.references))
        return [[own[k] if k < len(own) else "" for own in self.references] for k in range(most)]


@dataclass(frozen=True, slots=True)
class Split:
    """Files to learn from (two, or three with the alignment), sentences to tune on and to test with."""

    files: list[str]
    tuning: HeldOut
    test: HeldOut
    pairs: int


@dataclass(frozen=True, slots=True)
class Wanted:
    """How many sentences to hold out, how long they may be, how many references those of the test have at least."""

    tuning: int
    test: int
    longest: int
    references: int


def split(files: Sequence[str], wanted: Wanted, folder: Path) -> Split:
    """Divide a bitext by its source sentences, evenly spaced; what is to be learned from goes to the folder.

    Raises `InputError` where there are too few sentences, or files of different lengths.
    """
    columns = [read_sentences(file) for file in files]
    if len({len(lines) for lines in columns}) != 1:
        raise InputError(f"{' and '.join(files)} differ in their numbers of lines")
    pairs: dict[str, list[int]] = {}
    for number, line in enumerate(columns[0]):
        pairs.setdefault(line, []).append(number)

    def references(source: str) -> list[str]:
        found = dict.fromkeys(columns[1][number] for number in pairs[source])
        return [line for line in found if line.strip()]

    def is_short(line: str) -> bool:
        return 0 < len(line.split()) <= wanted.longest

    suited = [source for source in pairs if is_short(source) and all(map(is_short, references(source)))]
    several = [source for source in suited if len(references(source)) >= wanted.references]
    test = _spaced(several, wanted.test)
    chosen = set(test)
    tuning = _spaced([source for source in suited if source not in chosen], wanted.tuning)
    if len(test) < wanted.test or len(tuning) < wanted.tuning:
        raise InputError(
            f"{files[0]}: only {len(several):,} and {len(suited):,} sentences can be held out: ask for less"
        )
    chosen.update(tuning)
    left = [number for number, line in enumerate(columns[0]) if line not in chosen]
    names = []
    for side, lines in zip(("source", "target", "align"), columns, strict=False):
        path = folder / f"train.{side}"
        write_lines(path, (lines[number] for number in left))
        names.append(str(path))
    tuned, tested = (HeldOut(part, [references(source) for source in part]) for part in (tuning, test))
    return Split(names, tuned, tested, len(left))


def _spaced(items: list[str], wanted: int) -> list[str]:
    """So many of the items, evenly spaced; all where there are fewer."""
    if len(items) <= wanted:
        return items
    return [items[k * len(items) // wanted] for k in range(wanted)]
