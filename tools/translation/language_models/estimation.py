"""From tokenised text to a language model: two passes over the words, then counting and smoothing order by order.

Smoothing is interpolated modified Kneser-Ney [Chen & Goodman 1999], in a scratch database. Memory holds the vocabulary,
a piece of the text, and as much of the database as it was given. All else is in files of a folder beside the output,
which goes when the work ends.
"""

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from hierogram.daemon.exceptions import ExportError, InputError
from hierogram.daemon.progress import Progress
from hierogram.daemon.text.lines import LineFile, open_lines
from hierogram.daemon.text.rejections import MAX_LINE_BYTES
from hierogram.daemon.text.segments import joined
from hierogram.daemon.text.texts import TOKENS, TextSide
from hierogram.samplers.language_models.building import ModelBuilder
from hierogram.samplers.language_models.classes import ClassModel, word_classes
from hierogram.samplers.language_models.lines import (
    AT,
    ENOUGH,
    LINE,
    MARK,
    MORE,
    NEVER,
    NO_ROOM,
    ROWS,
    ngrams_at,
    read_words,
)
from hierogram.samplers.language_models.model import BEGIN, END, UNKNOWN, NGrams
from hierogram.samplers.language_models.vocabulary import SPECIAL, GrowingVocabulary, Vocabulary
from hierogram.tools.translation.language_models.arpa import NamedModel, TextCursor
from hierogram.tools.translation.language_models.options import EstimationOptions

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

FALLBACK = (0.5, 1.0, 1.5)
"""Discounts where a text is too small to estimate them, as KenLM has them."""

CLASSES, CLASS_ORDER = 40, 4
"""Classes of words of a class model, and the words of its longest n-grams."""
MOST_WORDS_IN_CLASSES = 1_000_000
"""A longer text has no class model: only small stores have a use for it."""

_ROWS = 1 << 18


def discounts_of(numbers: Sequence[int]) -> tuple[tuple[float, float, float], bool]:
    """Return the discounts of counts of 1, 2, and 3 or more, and whether they could be estimated.

    `numbers` of n-grams that have the adjusted counts 1, 2, 3, 4 [Chen & Goodman 1999].
    """
    if all(numbers):
        scale = numbers[0] / (numbers[0] + 2 * numbers[1])
        values = [k - (k + 1) * scale * numbers[k] / numbers[k - 1] for k in (1, 2, 3)]
        if all(0 <= value <= k for k, value in enumerate(values, 1)):
            return (values[0], values[1], values[2]), True
    return FALLBACK, False


class KneserNey:
    """Estimates a model of an order from the n-grams of a text."""

    def __init__(self, connection: "DuckDBPyConnection", order: int) -> None:
        self.order = order
        self._run = connection.execute
        self._run(f"CREATE TABLE occurrences ({', '.join(f'{w} INTEGER' for w in _words(order))})")

    def add(self, ngrams: NDArray[np.int32]) -> None:
        """Take the n-grams that end at each word, int32[order, n], padded with BEGIN where a sentence begins."""
        columns = dict(zip(_words(self.order), ngrams, strict=True))
        assert len(columns) == self.order
        self._run("INSERT INTO occurrences SELECT * FROM columns")

    def count(self) -> Iterator[int]:
        """Count the n-grams of all orders, from the highest; yield each order when it is done."""
        top = self.order
        self._run(
            f"CREATE TABLE grams{top} AS SELECT *, count(*) AS raw, 0::BIGINT AS types FROM occurrences GROUP BY ALL"
        )
        self._run("DROP TABLE occurrences")
        for n in range(top, 0, -1):
            if n < top:
                longer = ", ".join(f"w{k + 1} AS w{k}" for k in range(1, n + 1))
                self._run(
                    f"CREATE TABLE grams{n} AS SELECT {longer}, sum(raw)::BIGINT AS raw, count(*) AS types "
                    f"FROM grams{n + 1} GROUP BY ALL"
                )
                self._run(f"DROP TABLE grams{n + 1}")
            adjusted = "raw" if n == top else f"CASE WHEN w1 = {BEGIN} THEN raw ELSE types END"
            whole = f"WHERE w1 <> {BEGIN} OR w2 <> {BEGIN}" if n > 1 else ""
            self._run(f"CREATE TABLE counts{n} AS SELECT {_columns(n)}, {adjusted} AS count FROM grams{n} {whole}")
            yield n
        self._run("DROP TABLE grams1")

    def discounts(self, n: int) -> tuple[tuple[float, float, float], bool]:
        """Return the discounts of n-grams, and whether they could be estimated."""
        numbers = self._row(f"SELECT {', '.join(f'count(*) FILTER (count = {k})' for k in range(1, 5))} FROM counts{n}")
        return discounts_of([int(number) for number in numbers])

    def smooth(self, n: int, vocabulary: int, discounts: tuple[float, float, float]) -> None:
        """Make the probabilities of n-grams, when those of shorter ones are known."""
        one, two, more = discounts
        discount = f"CASE count WHEN 1 THEN {one!r} WHEN 2 THEN {two!r} ELSE {more!r} END"
        context = _columns(n - 1)
        self._run(
            f"CREATE TABLE contexts{n} AS SELECT {context + ',' if context else ''} sum(count)::BIGINT AS total, "
            f"({one!r} * count(*) FILTER (count = 1) + {two!r} * count(*) FILTER (count = 2) "
            f"+ {more!r} * count(*) FILTER (count > 2)) / sum(count)::DOUBLE AS weight FROM counts{n} "
            f"{'GROUP BY ALL' if context else ''}"
        )
        if n == 1:
            # BEGIN is never predicted; all other words share what discounting leaves.
            self._run(
                f"CREATE TABLE probabilities1 AS SELECT w1, (coalesce(count - ({discount}), 0) / total "
                f"+ weight / {vocabulary - 1}) AS probability FROM "
                f"(SELECT * FROM counts1 UNION ALL SELECT {UNKNOWN}, NULL WHERE NOT EXISTS "
                f"(SELECT * FROM counts1 WHERE w1 = {UNKNOWN})), contexts1"
            )
            self._run(f"INSERT INTO probabilities1 VALUES ({BEGIN}, 0)")
            return
        lower = " AND ".join(f"l.w{k} = c.w{k + 1}" for k in range(1, n))
        words = ", ".join(f"c.{w}" for w in _words(n))
        self._run(
            f"CREATE TABLE probabilities{n} AS SELECT {words}, "
            f"(c.count - ({discount})) / x.total + x.weight * l.probability AS probability "
            f"FROM counts{n} c JOIN contexts{n} x USING ({context}) JOIN probabilities{n - 1} l ON {lower}"
        )

    def list(self, n: int) -> Iterator[NGrams]:
        """Yield the n-grams with their probabilities and backoff weights, sorted; those of the next order are known."""
        backoff, join = "0", ""
        if n < self.order:
            # Where nothing is left for the lower order, the logarithm has no value.
            backoff = f"CASE WHEN weight IS NULL THEN 0 WHEN weight > 0 THEN log10(weight) ELSE {NEVER} END"
            join = f"LEFT JOIN contexts{n + 1} USING ({_columns(n)})"
        self._run(
            f"CREATE TABLE listed{n} AS SELECT {_columns(n)}, "
            f"(CASE WHEN probability > 0 THEN log10(probability) ELSE {NEVER} END)::FLOAT AS log10, "
            f"({backoff})::FLOAT AS backoff FROM probabilities{n} {join} ORDER BY {_columns(n)}"
        )
        for table in (f"counts{n}", f"contexts{n}", *([f"probabilities{n - 1}"] if n > 1 else [])):
            self._run(f"DROP TABLE {table}")
        (rows,) = self._row(f"SELECT count(*) FROM listed{n}")
        for start in range(0, rows, _ROWS):
            found = self._run(
                f"SELECT * FROM listed{n} WHERE rowid >= {start} AND rowid < {start + _ROWS} ORDER BY rowid"
            ).fetchnumpy()
            words = np.stack([found[w] for w in _words(n)], axis=1)
            yield NGrams(words, found["log10"], found["backoff"])
        self._run(f"DROP TABLE listed{n}")

    def number(self, n: int) -> int:
        """Return the number of n-grams, of unigrams without those that did not occur."""
        return int(self._row(f"SELECT count(*) FROM counts{n}")[0])

    def _row(self, query: str) -> tuple[int, ...]:
        found = self._run(query).fetchone()
        assert found is not None
        return found


def _words(n: int) -> list[str]:
    return [f"w{k}" for k in range(1, n + 1)]


def _columns(n: int) -> str:
    return ", ".join(_words(n))


_NUMBERS = 1 << 20
"""Words at once: more than the longest line has."""
_BEGINNING = 1 << 16
"""Bytes that are kept of a text's beginning."""


class ModelWriter(Protocol):
    """Takes the n-grams of an estimated model, order by order, each sorted."""

    def add(self, words: NDArray[np.int32], log10: NDArray[np.float32], backoff: NDArray[np.float32]) -> None:
        """Take n-grams of one order, not below the last one's."""

    def finish(self, classes: ClassModel | None = None) -> None:
        """Complete the model, to which a class model may belong."""


OpenWriter = Callable[[Vocabulary, list[int]], ModelWriter]
"""Begins a model of a vocabulary and of a number of n-grams of each order."""


class Report(NamedTuple):
    """An estimated model: sentences and words of the text, n-grams by order, words that are <unk>, and the orders whose
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
    writers: Sequence[OpenWriter],
    folder: Path,
    shown: Progress,
    side: TextSide = TOKENS,
    *,
    classes: bool = False,
) -> Report:
    """Estimate a model from files of sentences, one a line, and hand it to writers; empty lines are no sentences.

    Sentences go through `side`, which divides them into tokens where they are not. `folder` is where files go
    meanwhile. With `classes`, writers get a class model, too, if the text is no longer than it may be. Raises
    `InputError` where a text cannot be read or there is none, `ExportError` where there is no room.
    """
    try:
        with tempfile.TemporaryDirectory(prefix=".language-model-", dir=folder) as scratch:
            text = _read(texts, Path(scratch), shown, side)
            vocabulary, renumbered = _limited(text, options)
            with _database(Path(scratch), options.memory) as connection:
                model = KneserNey(connection, options.order)
                for numbers in _pieces(text.path, renumbered):
                    model.add(ngrams_at(numbers, options.order))
                short = int(text.occurrences.sum()) <= MOST_WORDS_IN_CLASSES
                of_classes = None
                if classes and short:
                    shown.update(0, 3 * options.order, 0, "learning classes of words")
                    of_classes = _class_model(text, options.memory)
                text.path.unlink()
                counts, without = _hand_over(model, vocabulary, writers, shown, of_classes)
    except OSError as error:
        raise ExportError(f"{folder}: no room to work in: {error.strerror or error}") from error
    unknown = int(text.occurrences[renumbered == UNKNOWN].sum())
    words = int(text.occurrences.sum()) - text.sentences
    return Report(text.sentences, words, counts, unknown, without, text.beginning)


def _read(texts: Sequence[str], folder: Path, shown: Progress, side: TextSide) -> _Text:
    """Number all words: the first pass."""
    text = _Text(folder / "words", GrowingVocabulary(), np.zeros(0, np.int64), 0, [])
    numbers = np.empty(_NUMBERS, np.int32)
    with text.path.open("wb") as file:
        for path in texts:
            with open_lines(path) as lines:
                source = TextCursor(
                    lines, shown, _divided(side, lines) if side.changes else _seen(lines, text.beginning)
                )
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
    for block in file.text_blocks():
        if not beginning and len(first) < _BEGINNING:
            first += block[:_BEGINNING]
        yield block
    beginning += first.decode(errors="replace").split("\n")[: None if len(first) < _BEGINNING else -1]


def _number(source: TextCursor, vocabulary: GrowingVocabulary, numbers: NDArray[np.int32]) -> bool:
    """Number words until there are enough; return whether there may be more of the source."""
    while True:
        before = int(source.cursor[AT])
        outcome = read_words(source.text, source.cursor, vocabulary.arrays, vocabulary.size, numbers)
        text = source.text[before : source.cursor[AT]].tobytes()
        try:
            text.decode()
        except UnicodeDecodeError as error:
            line = int(source.cursor[LINE]) - text.count(b"\n", error.start)
            raise source.fault(f"is not UTF-8 ({error.reason}): convert the file first", line) from error
        if outcome == NO_ROOM:
            vocabulary.grow(len(source.text))
        elif outcome == ENOUGH:
            return True
        elif outcome == MARK:
            raise source.fault(f"{SPECIAL[BEGIN]} or {SPECIAL[END]} stands in the text: take them out, they are added")
        elif outcome == MORE and not source.refill():
            return False


def _limited(text: _Text, options: EstimationOptions) -> tuple[Vocabulary, NDArray[np.int32]]:
    """Return the vocabulary within its limits, and the number in it of each word, int32[V]."""
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
    """Yield whole sentences, renumbered: the second pass."""
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


def _hand_over(
    model: KneserNey,
    vocabulary: Vocabulary,
    open_writers: Sequence[OpenWriter],
    shown: Progress | None,
    classes: ClassModel | None = None,
) -> tuple[list[int], list[int]]:
    """Count, smooth and list; return the numbers of n-grams, and the orders whose discounts could not be estimated."""
    top = model.order
    for n in model.count():
        if shown is not None:
            shown.update(top - n + 1, 3 * top, 0, f"counted {n}-grams")
    counts = [len(vocabulary), *(model.number(n) for n in range(2, top + 1))]
    writers = [begin(vocabulary, counts) for begin in open_writers]
    without = []
    for n in range(1, top + 1):
        discounts, estimated = model.discounts(n)
        if not estimated:
            without.append(n)
        model.smooth(n, len(vocabulary), discounts)
        if shown is not None:
            shown.update(top + 2 * n - 1, 3 * top, sum(counts[:n]), f"smoothed {n}-grams")
        # Backoff weights of an order are known with the next one.
        for known in range(max(n - 1, 1), n + (n == top)):
            for ngrams in model.list(known):
                for writer in writers:
                    writer.add(*ngrams)
    for writer in writers:
        writer.finish(classes)
    return counts, without


class BinaryWriter:
    """Builds the model in memory, and hands it on when it is whole."""

    def __init__(self, take: Callable[[NamedModel], object], vocabulary: Vocabulary, counts: list[int]) -> None:
        self._take = take
        self._vocabulary, self._counts = vocabulary, counts
        self._log10, self._backoff = (np.zeros(len(vocabulary), np.float32) for _ in range(2))
        self._builder: ModelBuilder | None = None

    def add(self, words: NDArray[np.int32], log10: NDArray[np.float32], backoff: NDArray[np.float32]) -> None:
        """Take n-grams of one order; those of one word come first."""
        if words.shape[1] == 1:
            self._log10[words[:, 0]] = log10
            self._backoff[words[:, 0]] = backoff
            return
        twice = self._begun().add(words, log10, backoff)
        assert twice is None

    def finish(self, classes: ClassModel | None = None) -> None:
        """Hand the model on."""
        self._take(NamedModel(self._begun().finish(), self._vocabulary, classes))

    def _begun(self) -> ModelBuilder:
        if self._builder is None:
            self._builder = ModelBuilder(len(self._counts), self._log10, self._backoff, self._counts[1:])
        return self._builder


def _class_model(text: _Text, memory: int) -> ClassModel:
    """Estimate a class model of whole words, whose parts are joined, of a text that fits in memory."""
    tokens = text.vocabulary.finish()
    spelled = [tokens.word(number) for number in range(len(tokens))]
    numbers = np.fromfile(text.path, np.int32)
    sentences = np.split(numbers, np.flatnonzero(numbers == END) + 1)[:-1]
    own: dict[str, int] = {}
    word_numbers: list[int] = []
    ends = [0]
    for sentence in sentences:
        line = joined(" ".join(spelled[number] for number in sentence[:-1].tolist()))
        word_numbers += [own.setdefault(word, len(own)) for word in line.split()]
        ends.append(len(word_numbers))
    words, offsets = np.array(word_numbers, np.int32), np.array(ends, np.int64)
    found = word_classes(words, offsets, CLASSES)
    times = np.bincount(words, minlength=len(own))
    sizes = np.bincount(found, times, minlength=CLASSES)
    vocabulary, names = GrowingVocabulary(), GrowingVocabulary()
    places, symbols = vocabulary.add(own), np.array(names.add(map(str, range(CLASSES))), np.int32)
    whole = vocabulary.finish()
    # A new word is one of the class of most words, met half a time.
    classes = np.full(len(whole), symbols[0], np.int32)
    log10 = np.full(len(whole), np.log10(0.5 / max(int(sizes[0]), 1)), np.float32)
    classes[places], log10[places] = symbols[found], np.log10(times / sizes[found])
    sequence = np.insert(symbols[found[words]], offsets[1:], END)
    made: list[NamedModel] = []
    with (
        tempfile.TemporaryDirectory(prefix="classes-", dir=text.path.parent) as scratch,
        _database(Path(scratch), memory) as connection,
    ):
        model = KneserNey(connection, CLASS_ORDER)
        model.add(ngrams_at(sequence, CLASS_ORDER))
        _hand_over(model, names.finish(), [partial(BinaryWriter, made.append)], None)
    return ClassModel(whole, classes, log10, made[0].model)
