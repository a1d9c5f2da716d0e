"""From tokenised text to a language model: two passes over the words, then counting and smoothing order by order.

Memory holds the vocabulary, a piece of the text, and as much of the scratch database as it was given. All else is in
files of a folder beside the output, which goes when the work ends.
"""

import os
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from hierogram.daemon.corpora.lines import MAX_LINE_BYTES, LineFile, open_lines
from hierogram.daemon.corpora.texts import TOKENS, TextSide
from hierogram.daemon.exceptions import ExportError, InputError
from hierogram.daemon.language_models.kneser_ney import KneserNey
from hierogram.daemon.language_models.options import EstimationOptions
from hierogram.daemon.language_models.source import Source
from hierogram.daemon.progress import Progress
from hierogram.samplers.language_models.arpa import AT, ENOUGH, LINE, MORE, NO_ROOM, ROWS
from hierogram.samplers.language_models.listing import NGrams
from hierogram.samplers.language_models.model import BEGIN, END, UNKNOWN
from hierogram.samplers.language_models.text import MARK, ngrams_at, read_words
from hierogram.samplers.language_models.vocabulary import SPECIAL, GrowingVocabulary, Vocabulary

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_NUMBERS = 1 << 20
"""Words at once: more than the longest line has."""


_BEGINNING = 1 << 16
"""Bytes that are kept of a text's beginning."""


class Taker(Protocol):
    """Takes the n-grams of an estimated model, order by order."""

    def begin(self, vocabulary: Vocabulary, counts: list[int]) -> None:
        """What words there are, and how many n-grams of each order will come."""

    def add(self, ngrams: NGrams) -> None:
        """N-grams of one order, sorted; not below the last one's."""

    def finish(self) -> None:
        """All n-grams have been handed over."""


class Report(NamedTuple):
    """What was estimated: sentences and words of the text, n-grams by order, words that are <unk>, and the orders whose
    discounts could not be estimated. `beginning` has the first lines of a text that was read as tokens."""

    sentences: int
    words: int
    ngrams: list[int]
    unknown: int
    without_discounts: list[int]
    beginning: Sequence[str] = ()


class _Text(NamedTuple):
    """A text that was read: the numbers of its words in a file, how often each occurs, n of sentences, first lines."""

    path: Path
    vocabulary: GrowingVocabulary
    occurrences: NDArray[np.int64]
    sentences: int
    beginning: list[str]


def estimate(
    texts: Sequence[str],
    options: EstimationOptions,
    taker: Taker,
    folder: Path,
    shown: Progress,
    side: TextSide = TOKENS,
) -> Report:
    """Estimate a model from files of sentences, one a line, and hand it over; empty lines are no sentences.

    Sentences go through `side`, which divides them into tokens where they are not. `folder` is where files go
    meanwhile. Raises `InputError` where a text cannot be read or there is none, `ExportError` where there is no room.
    """
    try:
        with tempfile.TemporaryDirectory(prefix=".language-model-", dir=folder) as scratch:
            text = _read(texts, Path(scratch), shown, side)
            vocabulary, renumbered = _limited(text, options)
            with _database(Path(scratch), options.memory) as connection:
                model = KneserNey(connection, options.order)
                for numbers in _pieces(text.path, renumbered):
                    model.add(ngrams_at(numbers, options.order))
                text.path.unlink()
                counts, without = _hand_over(model, vocabulary, taker, shown)
    except OSError as error:
        raise ExportError(f"{folder}: no room to work in: {error.strerror or error}") from error
    unknown = int(text.occurrences[renumbered == UNKNOWN].sum())
    words = int(text.occurrences.sum()) - text.sentences
    return Report(text.sentences, words, counts, unknown, without, text.beginning)


def _read(texts: Sequence[str], folder: Path, shown: Progress, side: TextSide) -> _Text:
    """First pass: number all words."""
    text = _Text(folder / "words", GrowingVocabulary(), np.zeros(0, np.int64), 0, [])
    numbers = np.empty(_NUMBERS, np.int32)
    with text.path.open("wb") as file:
        for path in texts:
            with open_lines(path) as lines:
                source = Source(lines, shown, _divided(side, lines) if side.changes else _seen(lines, text.beginning))
                while (outcome := _number(source, text.vocabulary, numbers)) is not None:
                    part = numbers[: source.cursor[ROWS]]
                    part.tofile(file)
                    found = np.bincount(part, minlength=len(text.occurrences))
                    found[: len(text.occurrences)] += text.occurrences
                    text = text._replace(occurrences=found)
                    source.read += int((part == END).sum())
                    source.cursor[ROWS] = 0
                    if not outcome:
                        break
    sentences = int(text.occurrences[END]) if len(text.occurrences) > END else 0
    if not sentences:
        raise InputError(f"{', '.join(texts)}: there is no sentence to learn a language model from")
    return text._replace(sentences=sentences)


def _divided(side: TextSide, file: LineFile) -> Iterator[bytes]:
    """The lines of a file, each as the side makes it; raises `InputError` where one is too long."""
    number = 0
    for chunk in file.chunks():
        for line in chunk:
            number += 1
            if len(line) > MAX_LINE_BYTES:
                raise InputError(f"{file.name}: line {number}: the line is longer than {MAX_LINE_BYTES:,} bytes")
        yield b"".join([side.tokens_of_bytes(line) + b"\n" for line in chunk])


def _seen(file: LineFile, beginning: list[str]) -> Iterator[bytes]:
    """The bytes of a file; its first lines are put into `beginning`, where that is empty."""
    first = b""
    for block in file.blocks():
        if not beginning and len(first) < _BEGINNING:
            first += block[:_BEGINNING]
        yield block
    beginning += first.decode(errors="replace").split("\n")[: None if len(first) < _BEGINNING else -1]


def _number(source: Source, vocabulary: GrowingVocabulary, numbers: NDArray[np.int32]) -> bool:
    """Number words until there are enough; whether there may be more of the source."""
    while True:
        before = int(source.cursor[AT])
        outcome = read_words(source.text, source.cursor, vocabulary, numbers)
        _check(source, before)
        if outcome == NO_ROOM:
            vocabulary.grow(len(source.text))
        elif outcome == ENOUGH:
            return True
        elif outcome == MARK:
            raise source.fault(f"{SPECIAL[BEGIN]} or {SPECIAL[END]} stands in the text: take them out, they are added")
        elif outcome == MORE and not source.refill():
            return False


def _check(source: Source, start: int) -> None:
    """Raises `InputError` where what was read is not UTF-8."""
    text = source.text[start : source.cursor[AT]].tobytes()
    try:
        text.decode()
    except UnicodeDecodeError as error:
        line = int(source.cursor[LINE]) - text.count(b"\n", error.start)
        raise source.fault(f"is not UTF-8 ({error.reason}): convert the file first", line) from error


def _limited(text: _Text, options: EstimationOptions) -> tuple[Vocabulary, NDArray[np.int32]]:
    """The vocabulary within its limits, and the number in it of each word, int32[V]."""
    whole = text.vocabulary.finish()
    kept = text.occurrences >= options.min_word_count
    kept[: len(SPECIAL)] = False
    if options.max_words is not None:
        # The most frequent; of equals those that came first.
        frequent = np.argsort(-text.occurrences[kept], kind="stable")
        kept[np.flatnonzero(kept)[frequent[options.max_words :]]] = False
    vocabulary = GrowingVocabulary()
    renumbered = np.full(len(whole), UNKNOWN, np.int32)
    renumbered[: len(SPECIAL)] = range(len(SPECIAL))
    words = np.flatnonzero(kept)
    renumbered[words] = vocabulary.add(whole.word(int(number)) for number in words)
    return vocabulary.finish(), renumbered


def _pieces(path: Path, renumbered: NDArray[np.int32]) -> Iterator[NDArray[np.int32]]:
    """Second pass: whole sentences, renumbered."""
    begun = np.zeros(0, np.int32)
    with path.open("rb") as file:
        while len(numbers := np.fromfile(file, np.int32, _NUMBERS)):
            numbers = np.concatenate([begun, renumbered[numbers]])
            end = int(np.flatnonzero(numbers == END)[-1]) + 1
            yield numbers[:end]
            begun = numbers[end:]


@contextmanager
def _database(folder: Path, memory: int) -> Iterator["DuckDBPyConnection"]:
    import duckdb

    connection = duckdb.connect(
        str(folder / "scratch"),
        config={
            "memory_limit": f"{memory}MB",
            "threads": max(1, min(2, os.cpu_count() or 1)),
            "temp_directory": str(folder / "spill"),
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
        },
    )
    try:
        yield connection
    except duckdb.Error as error:
        raise ExportError(f"counting n-grams failed, give it more --memory or room on the disk: {error}") from error
    finally:
        connection.close()


def _hand_over(model: KneserNey, vocabulary: Vocabulary, taker: Taker, shown: Progress) -> tuple[list[int], list[int]]:
    """Count, smooth and list; the numbers of n-grams, and the orders whose discounts could not be estimated."""
    top = model.order
    for n in model.count():
        shown.update(top - n + 1, 3 * top, 0, f"counted {n}-grams")
    counts = [len(vocabulary), *(model.number(n) for n in range(2, top + 1))]
    taker.begin(vocabulary, counts)
    without = []
    for n in range(1, top + 1):
        discounts = model.discounts(n)
        if not discounts.estimated:
            without.append(n)
        model.smooth(n, len(vocabulary), discounts)
        shown.update(top + 2 * n - 1, 3 * top, sum(counts[:n]), f"smoothed {n}-grams")
        if n > 1:
            _list(model, n - 1, taker)
    _list(model, top, taker)
    taker.finish()
    return counts, without


def _list(model: KneserNey, n: int, taker: Taker) -> None:
    for ngrams in model.list(n):
        taker.add(ngrams)
