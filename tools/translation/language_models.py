r"""Files of language models: ARPA, and the binary format, which is also the format of packed grammars.

A binary file contains arrays that are mapped into memory, so that it need not be parsed or copied. ARPA files of KenLM,
SRILM and IRSTLM can be read. An invalid ARPA file is rejected with the number of the line. Small deviations are
accepted: empty lines, text before \data\, any whitespace between fields, <UNK> for <unk>, a missing <unk>, <s> or </s>,
n-grams whose prefixes or suffixes were pruned.
"""

import json
import math
import mmap
import re
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.daemon.exceptions import ExportError, InputError
from hierogram.daemon.files import CompressedFile, atomic_write, open_output
from hierogram.daemon.progress import Progress
from hierogram.daemon.shared_options import STANDARD_STREAM
from hierogram.daemon.text.lines import LineFile, open_lines
from hierogram.daemon.text.rejections import MAX_LINE_BYTES
from hierogram.samplers.language_models import lines as parsing
from hierogram.samplers.language_models.building import MAX_ORDER, ModelBuilder
from hierogram.samplers.language_models.lines import format_ngrams, make_ngrams, read_lines
from hierogram.samplers.language_models.model import (
    BEGIN,
    END,
    NGRAM,
    STATE,
    UNIGRAM,
    UNKNOWN,
    LanguageModel,
    NGrams,
    iterate_ngrams,
)
from hierogram.samplers.language_models.vocabulary import GrowingVocabulary, Vocabulary

# A binary file consists of a line with its kind and version, the length and checksum of the header (two uint32), the
# header in JSON, and the arrays, little-endian, at multiples of 64 bytes. The header contains the dtype, shape, offset
# and checksum of each array.
_ALIGNMENT_BYTES = 64
_SIZES = np.dtype("<u4")
_MAX_HEADER = 1 << 24


def _first_line(kind: str, version: int) -> bytes:
    return f"hierogram {kind} {version}\n".encode()


def has_kind(path: str, kind: str) -> bool:
    """Check if a path is a readable binary file of a kind, in any version."""
    start = _first_line(kind, 0).rpartition(b" ")[0]
    try:
        with open(path, "rb") as file:
            return file.read(len(start)) == start
    except OSError:
        return False


def write_arrays(
    path: Path, kind: str, version: int, values: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
) -> None:
    """Write values and arrays to a file, atomically. Raises `ExportError`."""
    entries, offset = [], 0
    for name, array in arrays.items():
        assert array.flags.c_contiguous
        data = array.view(np.uint8).reshape(-1) if array.size else np.zeros(0, np.uint8)
        dtype = array.dtype
        fields = [[field, dtype[field].newbyteorder("<").str] for field in dtype.names or ()]
        entries.append([name, fields or dtype.newbyteorder("<").str, list(array.shape), offset, zlib.crc32(data.data)])
        offset += -(-array.nbytes // _ALIGNMENT_BYTES) * _ALIGNMENT_BYTES
    header = json.dumps({"values": dict(values), "arrays": entries}).encode()
    start = _first_line(kind, version) + np.array([len(header), zlib.crc32(header)], _SIZES).tobytes() + header
    try:
        with atomic_write(path.absolute()) as file:
            file.write(start + _padding(len(start)))
            for array in arrays.values():
                file.write(array.data if array.size else b"")
                file.write(_padding(array.nbytes))
    except OSError as error:
        raise ExportError(f"{path}: cannot be written: {error.strerror or error}") from error


def read_arrays(path: str, kind: str, version: int) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the values and arrays of a file. The arrays are mapped copy-on-write. Raises `InputError`."""
    line = _first_line(kind, version)
    try:
        with open(path, "rb") as file:
            if file.read(len(line)) != line:
                raise InputError(f"{path}: this version of hierogram cannot read this {kind}: create the file again")
            sizes = file.read(2 * _SIZES.itemsize)
            length, checksum = np.frombuffer(sizes, _SIZES).tolist() if len(sizes) == 8 else (0, 0)
            header = file.read(min(length, _MAX_HEADER))
            if zlib.crc32(header) != checksum or not header:
                raise _damaged(path)
            # Map copy-on-write, because kernels are compiled for writable arrays.
            content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    except OSError as error:
        raise InputError(f"{path}: cannot be opened: {error.strerror or error}") from error
    start = len(line + sizes + header)
    start += len(_padding(start))
    parsed_header = json.loads(header)
    arrays: dict[str, NDArray[Any]] = {}
    for name, description, shape, offset, checksum in parsed_header["arrays"]:
        fields = description if isinstance(description, str) else list(map(tuple, description))
        dtype, items, at = np.dtype(fields, align=True), math.prod(shape), start + offset
        end = at + items * dtype.itemsize
        with memoryview(content) as view:
            if end > len(content) or zlib.crc32(view[at:end]) != checksum:
                raise _damaged(path)
        arrays[name] = np.frombuffer(content, dtype, items, at).reshape(shape)
    return parsed_header["values"], arrays


def _damaged(path: str) -> InputError:
    return InputError(f"{path}: damaged or incomplete: create the file again")


def _padding(size: int) -> bytes:
    return b"\0" * (-size % _ALIGNMENT_BYTES)


class TextCursor:
    """Bytes of a file, parsed by kernels in blocks. `cursor` is the parser's state: position, line, rows."""

    def __init__(self, file: LineFile, bar: Progress, blocks: Iterator[bytes]) -> None:
        self.file = file
        self.cursor = np.array([0, 1, 0], np.int64)
        self.text = np.zeros(0, np.uint8)
        self.items_read = 0
        self._blocks = blocks
        self._bar = bar
        self._ended = False

    def refill(self) -> bool:
        """Append the next block to the unread bytes. Returns False at the end. Raises `InputError`."""
        rest = self.text[self.cursor[parsing.AT] :].tobytes()
        if len(rest) > MAX_LINE_BYTES:
            raise self.fault(f"the line exceeds {MAX_LINE_BYTES:,} bytes")
        block = next(self._blocks, None)
        if block is None:
            if self._ended:
                return False
            self._ended = True
            # Complete a last line without a newline, because kernels only parse complete lines.
            block = b"\n" if rest else b""
        self.text = np.frombuffer(bytearray(rest + block), np.uint8)
        self.cursor[parsing.AT] = 0
        self._bar.update(self.file.bytes_read, self.file.size, self.items_read)
        return True

    def line(self) -> bytes | None:
        """Return the next nonempty line, stripped, or None at the end. The cursor stays before the line."""
        while True:
            start = int(self.cursor[parsing.AT])
            ends = np.flatnonzero(self.text[start : start + MAX_LINE_BYTES + 1] == ord("\n"))
            if not len(ends):
                if not self.refill():
                    return None
                continue
            if line := self.text[start : start + ends[0]].tobytes().strip():
                return line
            self.next()

    def next(self) -> None:
        """Move the cursor past the current line."""
        self.cursor[parsing.AT] += np.argmax(self.text[self.cursor[parsing.AT] :] == ord("\n")) + 1
        self.cursor[parsing.LINE] += 1

    def fault(self, reason: str, line: int | None = None) -> InputError:
        """Return an error at a line, by default the current line."""
        return InputError(f"{self.file.name}, line {self.cursor[parsing.LINE] if line is None else line}: {reason}")


_UNKNOWN_LOG10 = -100.0
"""Log10 probability of an unknown word if the file has none, as in KenLM."""

_ROWS = 1 << 16
_MAX_EXPECTED = 1 << 24
"""Maximum number of n-grams to allocate in advance, because the numbers in the header may be wrong."""

_DATA, _END = b"\\data\\", b"\\end\\"
_COUNT = re.compile(rb"ngram\s+(\d+)\s*=\s*(\d+)")
_TITLE = re.compile(rb"\\(\d+)-grams:")
_EXPECTED = "expected a log10 probability, {words} and optionally a backoff weight"
_FAULTS = {
    parsing.NO_FIELDS: _EXPECTED,
    parsing.NO_NUMBER: "the line must begin with a log10 probability",
    parsing.POSITIVE: "the log10 probability must be <= 0",
    parsing.NO_WORD: "a word is missing from the 1-grams",
    parsing.NO_BACKOFF: f"{_EXPECTED}: the last field is not a backoff weight",
    parsing.BACKOFF_TOO_MANY: "n-grams of the highest order cannot have a backoff weight",
}


class ModelWithVocabulary(NamedTuple):
    """Language model and its vocabulary."""

    model: LanguageModel
    vocabulary: Vocabulary

    def counts(self) -> list[int]:
        """Return the number of n-grams of each order, from 1."""
        return [len(ngrams.words) for ngrams in iterate_ngrams(self.model)]


class _Unigrams:
    def __init__(self) -> None:
        self.vocabulary = GrowingVocabulary()
        self.log10 = np.full(_ROWS, np.nan, np.float32)
        self.backoff = np.zeros(_ROWS, np.float32)

    def add(self, ngrams: NDArray[np.int32], log10: NDArray[np.float32], backoff: NDArray[np.float32]) -> int | None:
        words = ngrams[:, 0]
        while len(self.vocabulary) > len(self.log10):
            self.log10 = np.concatenate([self.log10, np.full(len(self.log10), np.nan, np.float32)])
            self.backoff = np.concatenate([self.backoff, np.zeros(len(self.backoff), np.float32)])
        first = np.zeros(len(words), np.bool_)
        first[np.unique(words, return_index=True)[1]] = True
        duplicates = np.flatnonzero(~first | ~np.isnan(self.log10[words]))
        self.log10[words] = log10
        self.backoff[words] = backoff
        return int(duplicates[0]) if len(duplicates) else None

    def finish(self) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        log10 = self.log10[: len(self.vocabulary)]
        for word, otherwise in ((UNKNOWN, _UNKNOWN_LOG10), (BEGIN, parsing.LOG10_ZERO), (END, None)):
            if np.isnan(log10[word]):
                log10[word] = log10[UNKNOWN] if otherwise is None else otherwise
        return log10, self.backoff[: len(self.vocabulary)]


def read_arpa(path: str, bar: Progress) -> ModelWithVocabulary:
    """Return the model of an ARPA file, or of standard input for `-`. Raises `InputError`."""
    with open_lines(path) as file:
        source = TextCursor(file, bar, file.text_blocks())
        counts = _read_counts(source)
        unigrams = _Unigrams()
        vocabulary = unigrams.vocabulary
        _read_section(source, 1, counts, unigrams, vocabulary)
        words = vocabulary.finish()
        expected = counts[1:] if sum(counts[1:]) <= _MAX_EXPECTED else []
        builder = ModelBuilder(len(counts), *unigrams.finish(), expected)
        for order in range(2, len(counts) + 1):
            _read_section(source, order, counts, builder, vocabulary)
        if source.line() != _END:
            raise source.fault(f"{_END.decode()} not found: the file is incomplete, or has more sections than counts")
        source.next()
        if source.line() is not None:
            raise source.fault(f"trailing text after {_END.decode()}")
        return ModelWithVocabulary(builder.finish(), words)


def _read_counts(source: TextCursor) -> list[int]:
    while (line := source.line()) != _DATA:
        if line is None:
            raise source.fault(f"{_DATA.decode()} not found: not an ARPA file")
        if line == b"iARPA":
            raise source.fault("this is an IRSTLM file: convert it to ARPA with compile-lm --text=yes")
        source.next()
    source.next()
    counts: list[int] = []
    while (line := source.line()) is not None and (match := _COUNT.fullmatch(line)):
        if int(match[1]) != len(counts) + 1:
            raise source.fault(f"expected the number of {len(counts) + 1}-grams")
        counts.append(int(match[2]))
        source.next()
    if not 1 <= len(counts) <= MAX_ORDER:
        raise source.fault(f"the number of orders must be from 1 to {MAX_ORDER}, got {len(counts)}")
    return counts


def _read_section(
    source: TextCursor, order: int, counts: list[int], receiver: _Unigrams | ModelBuilder, vocabulary: GrowingVocabulary
) -> None:
    line = source.line()
    match = _TITLE.fullmatch(line or b"")
    if not match or int(match[1]) != order:
        if counts[order - 1] == 0:
            return
        raise source.fault(f"expected \\{order}-grams:")
    source.next()
    rows, lines, rows_read = make_ngrams(_ROWS, order), np.zeros(_ROWS, np.int64), 0
    while True:
        is_highest = order == len(counts)
        outcome = read_lines(source.text, source.cursor, vocabulary.arrays, vocabulary.size, rows, lines, is_highest)
        if outcome in _FAULTS:
            raise source.fault(_FAULTS[outcome].format(words=f"{order} word{'s' if order > 1 else ''}"))
        if outcome == parsing.NO_ROOM:
            vocabulary.grow(len(source.text))
        elif outcome == parsing.MORE:
            if not source.refill():
                raise source.fault(f"the file ends within the {order}-grams: it is incomplete")
        elif outcome in (parsing.ENOUGH, parsing.SECTION):
            n = int(source.cursor[parsing.ROWS])
            duplicate = receiver.add(rows.words[:n], rows.log10[:n], rows.backoff[:n])
            if duplicate is not None:
                raise source.fault(f"duplicate {order}-gram", int(lines[duplicate]))
            source.cursor[parsing.ROWS] = 0
            source.items_read += n
            rows_read += n
            if outcome == parsing.SECTION:
                break
    if rows_read != counts[order - 1]:
        raise source.fault(f"found {rows_read:,} {order}-grams, but the header announces {counts[order - 1]:,}")


class ArpaWriter:
    """Writer of an ARPA file. N-grams are added in blocks, lower orders first."""

    def __init__(self, file: CompressedFile, vocabulary: Vocabulary, counts: list[int]) -> None:
        self._file = file
        self._vocabulary = vocabulary
        self._order = len(counts)
        self._last = 0
        self._put(_DATA.decode(), *(f"ngram {k + 1}={count}" for k, count in enumerate(counts)))

    def add(self, words: NDArray[np.int32], log10: NDArray[np.float32], backoff: NDArray[np.float32]) -> None:
        """Write n-grams of one order, words int32[n, k]. Orders must not decrease."""
        order = words.shape[1]
        self._begin(order)
        for start in range(0, len(words), _ROWS):
            part = slice(start, start + _ROWS)
            rows = NGrams(np.ascontiguousarray(words[part]), log10[part], backoff[part])
            self._file.write(format_ngrams(self._vocabulary, rows, order < self._order))

    def finish(self) -> None:
        """Write the end of the file."""
        self._begin(self._order)
        self._put("", _END.decode())

    def _begin(self, order: int) -> None:
        for title in range(self._last + 1, order + 1):
            self._put("", f"\\{title}-grams:")
        self._last = order

    def _put(self, *lines: str) -> None:
        self._file.write("".join(line + "\n" for line in lines).encode())


def write_arpa(path: Path, model: ModelWithVocabulary) -> None:
    """Write a model as an ARPA file, compressed for suffixes .gz and .zst. Raises `ExportError`."""
    by_order = list(iterate_ngrams(model.model))
    with open_output(path) as file:
        writer = ArpaWriter(file, model.vocabulary, [len(ngrams.words) for ngrams in by_order])
        for ngrams in by_order:
            writer.add(*ngrams)
        writer.finish()


_KIND, _VERSION = "language model", 2
_TYPES = {"unigrams": UNIGRAM, "ngrams": NGRAM, "states": STATE}


def open_language_model(path: str, bar: Progress) -> ModelWithVocabulary:
    """Open a model in the binary format, or an ARPA file or standard input (`-`). Raises `InputError`."""
    if path == STANDARD_STREAM or not has_kind(path, _KIND):
        return read_arpa(path, bar)
    values, arrays = read_arrays(path, _KIND, _VERSION)
    if any(arrays[name].dtype != dtype for name, dtype in _TYPES.items()):
        raise InputError(f"{path}: created by another version of hierogram: create the file again")
    unigrams, ngrams, states = (arrays[name] for name in _TYPES)
    model = LanguageModel(unigrams, ngrams, states, values["order"], values["begin"])
    return ModelWithVocabulary(model, Vocabulary(*(arrays[name] for name in Vocabulary._fields)))


def write_binary(path: Path, model: ModelWithVocabulary) -> None:
    """Write a model in the binary format. Raises `ExportError` if the file cannot be written."""
    arrays: dict[str, NDArray[Any]] = {name: getattr(model.model, name) for name in _TYPES}
    values = {"order": model.model.order, "begin": model.model.begin}
    write_arrays(path, _KIND, _VERSION, values, arrays | model.vocabulary._asdict())


ARPA_SUFFIXES = (".arpa", ".gz", ".zst")
"""Suffixes of outputs in ARPA format. Other outputs are in the binary format."""


def convert(path: str, outputs: Sequence[Path], bar: Progress) -> ModelWithVocabulary:
    """Convert a language model to the format of each output's suffix. Returns the model."""
    model = open_language_model(path, bar)
    for output in outputs:
        (write_arpa if output.name.endswith(ARPA_SUFFIXES) else write_binary)(output, model)
    return model
