"""Pairs as arrays of numbers, some thousand at a time, read from the store once and kept in a file for later passes."""

import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from itertools import chain
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import NDArray

from hierogram.daemon.terms.vocabulary import Numbers, Vocabulary
from hierogram.storage.exports.blocks import Block

Heard = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class Pairs:
    """Some pairs. Words are numbers of their side's vocabulary, one pair's after the other's.

    `ids`, `corpora`, `days` int64[n]; `source_ends`, `target_ends` int64[n], where each pair's words end; `source`,
    `target` int64[words]; `source_links`, `target_links` int64[links], the places of linked words among these.
    """

    ids: Numbers
    corpora: Numbers
    days: Numbers
    source: Numbers
    target: Numbers
    source_ends: Numbers
    target_ends: Numbers
    source_links: Numbers
    target_links: Numbers

    def source_text(self, pair: int, words: Vocabulary) -> str:
        """The source of a pair."""
        return words.text(_of(self.source, self.source_ends, pair).tolist())

    def target_text(self, pair: int, words: Vocabulary) -> str:
        """The target of a pair."""
        return words.text(_of(self.target, self.target_ends, pair).tolist())


def _of(words: Numbers, ends: Numbers, pair: int) -> Numbers:
    return words[ends[pair - 1] if pair else 0 : ends[pair]]


def pairs_of(block: Block, source: Vocabulary, target: Vocabulary) -> Pairs:
    """The pairs of a block of `TERM_COLUMNS`."""
    _, (ids, corpora, days, sources, targets, alignments) = block
    source_words, source_ends = _words(sources, source)
    target_words, target_ends = _words(targets, target)
    links = _numbers(alignments.replace("-", " "))
    per_pair = np.array([line.count("-") for line in alignments.split("\n")], np.int64)
    return Pairs(
        _numbers(ids),
        _numbers(corpora),
        _numbers(days),
        source_words,
        target_words,
        source_ends,
        target_ends,
        links[::2] + np.repeat(_begins(source_ends), per_pair),
        links[1::2] + np.repeat(_begins(target_ends), per_pair),
    )


def _begins(ends: Numbers) -> Numbers:
    return np.concatenate((np.zeros(1, np.int64), ends[:-1]))


def _numbers(texts: str) -> Numbers:
    return np.array(texts.split(), np.int64)


def _words(texts: str, words: Vocabulary) -> tuple[Numbers, Numbers]:
    lines = [line.split(" ") for line in texts.split("\n")]
    ends = np.cumsum(np.fromiter(map(len, lines), np.int64, len(lines)))
    return np.fromiter(map(words.numbers.__getitem__, chain.from_iterable(lines)), np.int64, int(ends[-1])), ends


class Spool:
    """Pairs in a file that goes with it, to be read again and again."""

    def __init__(self) -> None:
        self._file = tempfile.TemporaryFile()  # noqa: SIM115
        self._parts = 0
        self.pairs = 0

    def add(self, pairs: Pairs) -> None:
        """Puts pairs at the end."""
        for field in fields(Pairs):
            np.save(self._file, getattr(pairs, field.name).astype(np.int32))
        self._parts += 1
        self.pairs += len(pairs.ids)

    def read(self, heard: Heard | None = None) -> Iterator[Pairs]:
        """All pairs, in the order and in the parts in which they were added; `heard` hears how many so far."""
        self._file.seek(0)
        read = 0
        for _ in range(self._parts):
            columns: list[NDArray[np.int32]] = [np.load(self._file) for _ in fields(Pairs)]
            part = Pairs(*(column.astype(np.int64) for column in columns))
            yield part
            read += len(part.ids)
            if heard:
                heard(read)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()
