"""Language model estimation: two passes over the words, then counting and smoothing by order.

Smoothing is interpolated modified Kneser-Ney [Chen & Goodman 1999], in a scratch database. Memory holds the vocabulary,
a block of the text, the database up to its memory limit, and the model if it is written in the binary format. All other
data is in files of a temporary folder beside the output.
"""

import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import cached_property, partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.daemon.exceptions import ExportError, InputError
from hierogram.daemon.files import open_output
from hierogram.daemon.progress import Progress
from hierogram.daemon.text.lines import LineFile, open_lines
from hierogram.daemon.text.pipeline import TOKENS, TextSide
from hierogram.daemon.text.rejections import MAX_LINE_BYTES
from hierogram.samplers.language_models import lines as parsing
from hierogram.samplers.language_models.building import ModelBuilder
from hierogram.samplers.language_models.lines import ngrams_at, read_words
from hierogram.samplers.language_models.model import BEGIN, END, UNKNOWN, NGrams
from hierogram.samplers.language_models.vocabulary import SPECIAL, GrowingVocabulary, Vocabulary
from hierogram.tools.translation.language_models import (
    ARPA_SUFFIXES,
    ArpaWriter,
    ModelWithVocabulary,
    TextCursor,
    write_binary,
)
from hierogram.tools.translation.options import EstimationOptions

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

FALLBACK = (0.5, 1.0, 1.5)
"""Discounts for a text that is too small to estimate them, as in KenLM."""

_ROWS = 1 << 18


def estimate_discounts(numbers: Sequence[int]) -> tuple[tuple[float, float, float], bool]:
    """Return the discounts for counts 1, 2 and ≥ 3, and True if estimated, False if `FALLBACK`.

    `numbers` contains the numbers of n-grams with the adjusted counts 1, 2, 3 and 4 [Chen & Goodman 1999].
    """
    if all(numbers):
        scale = numbers[0] / (numbers[0] + 2 * numbers[1])
        values = [k - (k + 1) * scale * numbers[k] / numbers[k - 1] for k in (1, 2, 3)]
        if all(0 <= value <= k for k, value in enumerate(values, 1)):
            return (values[0], values[1], values[2]), True
    return FALLBACK, False


class KneserNey:
    """Kneser-Ney estimator of a given order from the n-grams of a text."""

    def __init__(self, connection: "DuckDBPyConnection", order: int) -> None:
        self.order = order
        self._run = connection.execute
        self._run(f"CREATE TABLE occurrences ({', '.join(f'{w} INTEGER' for w in _words(order))})")

    def add(self, ngrams: NDArray[np.int32]) -> None:
        """Add n-grams, int32[order, n], padded with BEGIN at the beginning of a sentence."""
        columns = dict(zip(_words(self.order), ngrams, strict=True))
        assert len(columns) == self.order
        self._run("INSERT INTO occurrences SELECT * FROM columns")

    def count(self) -> Iterator[int]:
        """Count the n-grams of all orders, highest first. Yields each order after counting it."""
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
            condition = f"WHERE w1 <> {BEGIN} OR w2 <> {BEGIN}" if n > 1 else ""
            self._run(f"CREATE TABLE counts{n} AS SELECT {_columns(n)}, {adjusted} AS count FROM grams{n} {condition}")
            yield n
        self._run("DROP TABLE grams1")

    def discounts(self, n: int) -> tuple[tuple[float, float, float], bool]:
        """Return the discounts of order `n`, and whether they are estimated; see `estimate_discounts`."""
        numbers = self._row(f"SELECT {', '.join(f'count(*) FILTER (count = {k})' for k in range(1, 5))} FROM counts{n}")
        return estimate_discounts([int(number) for number in numbers])

    def smooth(self, n: int, vocabulary_size: int, discounts: tuple[float, float, float]) -> None:
        """Compute the probabilities of order `n`. Order n - 1, if any, must be smoothed."""
        discount_1, discount_2, discount_3 = discounts
        discount = f"CASE count WHEN 1 THEN {discount_1!r} WHEN 2 THEN {discount_2!r} ELSE {discount_3!r} END"
        context = _columns(n - 1)
        self._run(
            f"CREATE TABLE contexts{n} AS SELECT {context + ',' if context else ''} sum(count)::BIGINT AS total, "
            f"({discount_1!r} * count(*) FILTER (count = 1) + {discount_2!r} * count(*) FILTER (count = 2) "
            f"+ {discount_3!r} * count(*) FILTER (count > 2)) / sum(count)::DOUBLE AS weight FROM counts{n} "
            f"{'GROUP BY ALL' if context else ''}"
        )
        if n == 1:
            # All words except BEGIN, which is never predicted, share the discounted mass.
            self._run(
                f"CREATE TABLE probabilities1 AS SELECT w1, (coalesce(count - ({discount}), 0) / total "
                f"+ weight / {vocabulary_size - 1}) AS probability FROM "
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

    def ngrams(self, n: int) -> Iterator[NGrams]:
        """Yield sorted n-grams with log10 probabilities and backoffs. Order n + 1, if any, must be smoothed."""
        backoff, join = "0", ""
        if n < self.order:
            # The logarithm is undefined if no mass remains for the lower order.
            backoff = (
                f"CASE WHEN weight IS NULL THEN 0 WHEN weight > 0 THEN log10(weight) ELSE {parsing.LOG10_ZERO} END"
            )
            join = f"LEFT JOIN contexts{n + 1} USING ({_columns(n)})"
        self._run(
            f"CREATE TABLE listed{n} AS SELECT {_columns(n)}, "
            f"(CASE WHEN probability > 0 THEN log10(probability) ELSE {parsing.LOG10_ZERO} END)::FLOAT AS log10, "
            f"({backoff})::FLOAT AS backoff FROM probabilities{n} {join} ORDER BY {_columns(n)}"
        )
        for table in (f"counts{n}", f"contexts{n}", *([f"probabilities{n - 1}"] if n > 1 else [])):
            self._run(f"DROP TABLE {table}")
        (rows,) = self._row(f"SELECT count(*) FROM listed{n}")
        for start in range(0, rows, _ROWS):
            arrays = self._run(
                f"SELECT * FROM listed{n} WHERE rowid >= {start} AND rowid < {start + _ROWS} ORDER BY rowid"
            ).fetchnumpy()
            words = np.stack([arrays[w] for w in _words(n)], axis=1)
            yield NGrams(words, arrays["log10"], arrays["backoff"])
        self._run(f"DROP TABLE listed{n}")

    def number(self, n: int) -> int:
        """Return the number of distinct n-grams of order `n`."""
        return int(self._row(f"SELECT count(*) FROM counts{n}")[0])

    def _row(self, query: str) -> tuple[int, ...]:
        row = self._run(query).fetchone()
        assert row is not None
        return row


def _words(n: int) -> list[str]:
    return [f"w{k}" for k in range(1, n + 1)]


def _columns(n: int) -> str:
    return ", ".join(_words(n))


_WORDS_PER_READ = 1 << 20
"""Number of words read at once, more than in any line, so that every block contains an END."""
_BEGINNING_BYTES = 1 << 16
"""Number of bytes from the beginning of a text that are kept for advice on tokenization."""


OpenWriter = Callable[[Vocabulary, list[int]], "ArpaWriter | BinaryWriter"]
"""Factory of a model writer: `(vocabulary, number of n-grams of each order)`."""


class EstimationReport(NamedTuple):
    """Statistics of an estimated model and its text.

    `ngrams` contains the number of n-grams of each order. `unknown` is the number of words in the text that became
    <unk>. `without_discounts` contains the orders for which the text was too small to estimate discounts. `beginning`
    contains the first lines of a text that was read as tokens.
    """

    sentences: int
    words: int
    ngrams: list[int]
    unknown: int
    without_discounts: list[int]
    beginning: Sequence[str] = ()


def build_model(
    texts: Sequence[str], outputs: Sequence[Path], options: EstimationOptions, bar: Progress, side: TextSide = TOKENS
) -> EstimationReport:
    """Estimate a model from files with one sentence per line, and write it to each output.

    Empty lines are skipped. The suffix of an output determines its format. `side` tokenizes the sentences. Raises
    `InputError` if a text cannot be read or all lines are empty, and `ExportError` if the disk or the memory limit is
    too small.
    """
    folder, writers = outputs[0].absolute().parent, list[OpenWriter]()
    try:
        with ExitStack() as stack:
            for output in outputs:
                if output.name.endswith(ARPA_SUFFIXES):
                    writers.append(partial(ArpaWriter, stack.enter_context(open_output(output))))
                else:
                    writers.append(partial(BinaryWriter, output))
            scratch = stack.enter_context(tempfile.TemporaryDirectory(prefix=".language-model-", dir=folder))
            numbered = Path(scratch, "words")
            beginning: list[str] = []
            words, occurrences = _number_texts(texts, numbered, bar, side, beginning)
            vocabulary, renumbered = _limit_vocabulary(words, occurrences, options)
            with _database(Path(scratch), options.memory) as connection:
                model = KneserNey(connection, options.order)
                for numbers in _sentence_blocks(numbered, renumbered):
                    model.add(ngrams_at(numbers, options.order))
                numbered.unlink()
                counts, without = _write_model(model, vocabulary, writers, bar)
    except OSError as error:
        raise ExportError(f"{folder}: cannot create temporary files: {error.strerror or error}") from error
    unknown = int(occurrences[renumbered == UNKNOWN].sum())
    sentences = int(occurrences[END])
    return EstimationReport(sentences, int(occurrences.sum()) - sentences, counts, unknown, without, beginning)


def _number_texts(
    texts: Sequence[str], output: Path, bar: Progress, side: TextSide, beginning: list[str]
) -> tuple[Vocabulary, NDArray[np.int64]]:
    vocabulary, occurrences = GrowingVocabulary(), np.zeros(len(SPECIAL), np.int64)
    numbers = np.empty(_WORDS_PER_READ, np.int32)
    with output.open("wb") as file:
        for path in texts:
            with open_lines(path) as lines:
                blocks = _tokenized_blocks(side, lines) if side.changes else _keep_beginning(lines, beginning)
                source = TextCursor(lines, bar, blocks)
                has_more = True
                while has_more:
                    has_more = _number_words(source, vocabulary, numbers)
                    part = numbers[: source.cursor[parsing.ROWS]]
                    part.tofile(file)
                    before, occurrences = occurrences, np.bincount(part, minlength=len(occurrences))
                    occurrences[: len(before)] += before
                    source.items_read += int((part == END).sum())
                    source.cursor[parsing.ROWS] = 0
    if not occurrences[END]:
        raise InputError(f"{', '.join(texts)}: no sentences found")
    return vocabulary.finish(), occurrences


def _tokenized_blocks(side: TextSide, file: LineFile) -> Iterator[bytes]:
    number = 0
    for chunk in file.chunks():
        for line in chunk:
            number += 1
            if len(line) > MAX_LINE_BYTES:
                raise InputError(f"{file.name}, line {number}: exceeds {MAX_LINE_BYTES:,} bytes")
        yield b"".join([side.tokenize_bytes(line) + b"\n" for line in chunk])


def _keep_beginning(file: LineFile, beginning: list[str]) -> Iterator[bytes]:
    first = b""
    for block in file.text_blocks():
        if not beginning and len(first) < _BEGINNING_BYTES:
            first += block[:_BEGINNING_BYTES]
        yield block
    beginning += first.decode(errors="replace").split("\n")[: None if len(first) < _BEGINNING_BYTES else -1]


def _number_words(source: TextCursor, vocabulary: GrowingVocabulary, numbers: NDArray[np.int32]) -> bool:
    while True:
        before = int(source.cursor[parsing.AT])
        outcome = read_words(source.text, source.cursor, vocabulary.arrays, vocabulary.size, numbers)
        text = source.text[before : source.cursor[parsing.AT]].tobytes()
        try:
            text.decode()
        except UnicodeDecodeError as error:
            line = int(source.cursor[parsing.LINE]) - text.count(b"\n", error.start)
            raise source.fault(f"not UTF-8 ({error.reason}): convert the file first", line) from error
        if outcome == parsing.NO_ROOM:
            vocabulary.grow(len(source.text))
        elif outcome == parsing.ENOUGH:
            return True
        elif outcome == parsing.SENTENCE_MARK:
            raise source.fault(
                f"the text must not contain {SPECIAL[BEGIN]} or {SPECIAL[END]}, which are added "
                "automatically: remove them"
            )
        elif outcome == parsing.MORE and not source.refill():
            return False


def _limit_vocabulary(
    known: Vocabulary, occurrences: NDArray[np.int64], options: EstimationOptions
) -> tuple[Vocabulary, NDArray[np.int32]]:
    is_kept = occurrences >= options.min_word_count
    is_kept[: len(SPECIAL)] = False
    if options.max_words is not None:
        # A stable sort keeps the earlier of two equally frequent words.
        frequent = np.argsort(-occurrences[is_kept], kind="stable")
        is_kept[np.flatnonzero(is_kept)[frequent[options.max_words :]]] = False
    vocabulary = GrowingVocabulary()
    renumbered = np.full(len(known), UNKNOWN, np.int32)
    renumbered[: len(SPECIAL)] = range(len(SPECIAL))
    words = np.flatnonzero(is_kept)
    renumbered[words] = vocabulary.add(known.word(int(number)) for number in words)
    return vocabulary.finish(), renumbered


def _sentence_blocks(path: Path, renumbered: NDArray[np.int32]) -> Iterator[NDArray[np.int32]]:
    remainder = np.zeros(0, np.int32)
    with path.open("rb") as file:
        while len(numbers := np.fromfile(file, np.int32, _WORDS_PER_READ)):
            numbers = np.concatenate([remainder, renumbered[numbers]])
            end = int(np.flatnonzero(numbers == END)[-1]) + 1
            yield numbers[:end]
            remainder = numbers[end:]


@contextmanager
def _database(folder: Path, memory: int) -> Iterator["DuckDBPyConnection"]:
    import duckdb

    connection = duckdb.connect(
        str(folder / "scratch"),
        config={
            "memory_limit": f"{memory}MB",
            "threads": min(2, os.cpu_count() or 1),
            "temp_directory": str(folder / "spill"),
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
        },
    )
    try:
        yield connection
    except duckdb.Error as error:
        raise ExportError(f"counting n-grams failed: {error}: increase --memory or free some disk space") from error
    finally:
        connection.close()


def _write_model(
    model: KneserNey, vocabulary: Vocabulary, open_writers: Sequence[OpenWriter], bar: Progress
) -> tuple[list[int], list[int]]:
    """Count, smooth and write all orders. Returns numbers of n-grams, and orders with fallback discounts."""
    top = model.order
    for n in model.count():
        bar.update(top - n + 1, 3 * top, 0, f"counted {n}-grams")
    counts = [len(vocabulary), *(model.number(n) for n in range(2, top + 1))]
    writers = [open_writer(vocabulary, counts) for open_writer in open_writers]
    without = []
    for n in range(1, top + 1):
        discounts, estimated = model.discounts(n)
        if not estimated:
            without.append(n)
        model.smooth(n, len(vocabulary), discounts)
        bar.update(top + 2 * n - 1, 3 * top, sum(counts[:n]), f"smoothed {n}-grams")
        # Write an order only after the next order is smoothed, because backoff weights depend on the next order.
        for order in range(max(n - 1, 1), n + (n == top)):
            for ngrams in model.ngrams(order):
                for writer in writers:
                    writer.add(*ngrams)
    for writer in writers:
        writer.finish()
    return counts, without


class BinaryWriter:
    """Writer of the binary format, which builds the model in memory."""

    def __init__(self, path: Path, vocabulary: Vocabulary, counts: list[int]) -> None:
        self._path = path
        self._vocabulary, self._counts = vocabulary, counts
        self._log10, self._backoff = (np.zeros(len(vocabulary), np.float32) for _ in range(2))

    def add(self, words: NDArray[np.int32], log10: NDArray[np.float32], backoff: NDArray[np.float32]) -> None:
        """Add n-grams of one order, unigrams first."""
        if words.shape[1] == 1:
            self._log10[words[:, 0]] = log10
            self._backoff[words[:, 0]] = backoff
            return
        duplicate = self._builder.add(words, log10, backoff)
        assert duplicate is None

    def finish(self) -> None:
        """Write the complete model to the file."""
        write_binary(self._path, ModelWithVocabulary(self._builder.finish(), self._vocabulary))

    @cached_property
    def _builder(self) -> ModelBuilder:
        return ModelBuilder(len(self._counts), self._log10, self._backoff, self._counts[1:])
