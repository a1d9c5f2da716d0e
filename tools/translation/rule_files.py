"""Reader of translation rules in the formats cdec, moses, jsonl, tsv and parquet."""

import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hierogram.daemon.exceptions import ExportError, InputError
from hierogram.daemon.exports.formats import BY_NAME, FEATURES, FORMATS, MOSES, MOSES_SCORES, format_from_name
from hierogram.daemon.exports.publication import MANIFEST, manifest_path, read_manifest
from hierogram.daemon.exports.scratch import Scratch
from hierogram.daemon.progress import Progress
from hierogram.daemon.text.lines import open_lines
from hierogram.samplers.decoding import rule_lines
from hierogram.samplers.decoding.grammar import RuleColumns
from hierogram.samplers.decoding.rule_lines import Layout, Vocabularies, make_lines, number_gaps, read_rules
from hierogram.samplers.language_models.vocabulary import GrowingVocabulary
from hierogram.storage.browsing.reader import literal

_LOGARITHMIC = tuple(name for name, feature in BY_NAME.items() if feature.logarithmic)
_NAMES_BY_CDEC_NAME = {feature.cdec: feature.name for feature in FEATURES}
_MIN_PROBABILITY = 1e-100
"""Value that replaces a probability of 0."""

_TABLES = ("jsonl", "tsv", "parquet")
"""Formats that DuckDB reads."""
_FORMATS = ("cdec", "moses", *_TABLES)
_COLUMNS = ("source", "target", "alignment")
_FLAT = "hive_partitioning=false"
"""DuckDB argument so that a path element such as `language=zh` is not read as a column."""
_LAYOUTS = {
    "cdec": Layout(tabs=False, source=1, target=2, values=3, links=4, named=True, labeled=False),
    "moses": Layout(tabs=False, source=0, target=1, values=2, links=3, named=False, labeled=True),
}
_TABBED = Layout(tabs=True, source=0, target=1, values=3, links=2, named=False, labeled=False)
_FAULTS = {
    rule_lines.NO_FIELDS: "expected source side, target side and values, separated by |||",
    rule_lines.NO_NUMBER: "the value of a feature is not a number",
    rule_lines.NO_NAME: "expected features such as Name=value",
    rule_lines.NO_LINK: "expected links such as i-j",
}
_NUMBERED = re.compile(r"\[([^\[\]\s,]+),([1-9][0-9]?)\]")
"""Nonterminal with a label and a number, such as `[X,1]`."""
_NUMBERED_IN_TABLES = re.compile(r"\[(X),([1-9][0-9]?)\]")
"""The same in tables, in which other labels are words."""
_LINKED = re.compile(r"\[X\]\[([^\[\]\s]+)\]")
"""Nonterminal of Moses, such as `[X][X]`, which a link connects to the other side."""
_INITIAL_CAPACITY = 1 << 16
_MOSES_ESCAPES = (
    ("&#124;", "|"), ("&#91;", "["), ("&#93;", "]"), ("&bar;", "|"), ("&lt;", "<"), ("&gt;", ">"), ("&amp;", "&"),
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class TranslationRules:
    """Rules as columns, with the words of each side by number, and the names of the feature columns."""

    columns: RuleColumns
    source_words: list[str]
    target_words: list[str]
    features: tuple[str, ...]


class RuleReader:
    """Parser of rules in one format. Call `read` for all input, then `table`."""

    def __init__(self, input_name: str, format: str, feature_names: tuple[str, ...]) -> None:
        self._input_name = input_name
        self._format = format
        self._feature_names = feature_names
        self._layout = _LAYOUTS.get(format, _TABBED)
        self._source = GrowingVocabulary()
        self._target = GrowingVocabulary()
        self._feature_vocabulary = GrowingVocabulary()
        self._rules = make_lines(_INITIAL_CAPACITY)
        self._cursor = np.array([0, 1], np.int64)

    @property
    def rules(self) -> int:
        """Number of rules read."""
        return self._rules.rules

    def read(self, blocks: Iterable[bytes]) -> Iterator[int]:
        """Parse blocks of bytes. Yields the number of rules after each block. Raises `InputError`."""
        unfinished = b""
        for block in blocks:
            unfinished = self._parse_lines(unfinished + block)
            yield self.rules
        if unfinished:
            self._parse_lines(unfinished + b"\n")
        yield self.rules

    def _parse_lines(self, data: bytes) -> bytes:
        text = np.frombuffer(bytearray(data), np.uint8)
        self._cursor[rule_lines.AT] = 0
        source, target, names = growing = self._source, self._target, self._feature_vocabulary
        while True:
            vocabularies = Vocabularies(
                source.arrays, source.size, target.arrays, target.size, names.arrays, names.size
            )
            outcome = read_rules(text, self._cursor, self._layout, vocabularies, self._rules)
            if outcome == rule_lines.MORE:
                return data[int(self._cursor[rule_lines.AT]) :]
            if outcome == rule_lines.NO_ROOM:
                self._rules = make_lines(2 * len(self._rules.line), self._rules)
            elif outcome == rule_lines.NO_VOCABULARY:
                # The kernel does not report which vocabulary is full, so grow each vocabulary that may lack room for a
                # long word.
                for vocabulary in growing:
                    words, (letters, starts, slots) = len(vocabulary), vocabulary.arrays
                    room = len(letters) - int(starts[words])
                    if words + 2 > len(starts) or 2 * (words + 1) > len(slots) or len(data) > room:
                        vocabulary.grow(len(data))
            else:
                raise self._fault(int(self._cursor[rule_lines.LINE]), _FAULTS[outcome])

    def _fault(self, line: int, reason: str) -> InputError:
        return InputError(f"{self._input_name}, line {line}: {reason}")

    def table(self, values: NDArray[np.float64] | None = None) -> TranslationRules:
        """Return the rules. `values` float64[rules, names] replace the lines' values. Raises `InputError`."""
        rules = self._rules
        source, source_words = self._resolve_symbols(self._source)
        target, target_words = self._resolve_symbols(self._target)
        if values is None:
            names, features = self._features()
        else:
            used = np.ones(len(self._feature_names), np.bool_)
            names, features = self._decoder_features(self._feature_names, values, used)
        columns, fault = number_gaps(rules.columns(source, target, features))
        if fault >= 0:
            reason = "the nonterminals or links do not match: each nonterminal must occur once on each side"
            raise self._fault(int(rules.line[fault]), reason)
        return TranslationRules(columns, source_words, target_words, names)

    def _resolve_symbols(self, vocabulary: GrowingVocabulary) -> tuple[NDArray[np.int32], list[str]]:
        """Return a word number, or -k for nonterminal k, for each spelling, and the words by number."""
        symbols = vocabulary.finish()
        meanings = np.zeros(len(symbols), np.int32)
        numbers: dict[str, int] = {}
        numbered = _NUMBERED_IN_TABLES if self._layout.tabs else _NUMBERED
        for symbol in range(len(symbols)):
            spelled = symbols.word(symbol)
            match = numbered.fullmatch(spelled)
            if match:
                meanings[symbol] = -int(match[2])
            elif self._format == MOSES.name and (match := _LINKED.fullmatch(spelled)):
                meanings[symbol] = -rule_lines.UNNUMBERED
            else:
                if self._format == MOSES.name:
                    for written, meant in _MOSES_ESCAPES:
                        spelled = spelled.replace(written, meant)
                else:
                    spelled = spelled.removeprefix("\\") or spelled
                meanings[symbol] = numbers.setdefault(spelled, len(numbers))
            if match and match[1] != "X":
                raise InputError(f"{self._input_name}: nonterminal {spelled} is not supported: expected X")
        return meanings, list(numbers)

    def _features(self) -> tuple[tuple[str, ...], NDArray[np.float64]]:
        rules = self._rules
        value, name = rules.value[: rules.values], rules.value_name[: rules.values]
        if self._layout.named:
            vocabulary = self._feature_vocabulary.finish()
            names = tuple(map(vocabulary.word, range(len(vocabulary))))
        else:
            columns = int(name.max(initial=-1)) + 1
            names = self._feature_names
            if len(names) < columns or (self._format == MOSES.name and len(names) > columns):
                # Moses tables of other programs begin with the four standard scores.
                moses_names = MOSES_SCORES if self._format == MOSES.name else ()
                names = (*moses_names[:columns], *(f"value_{k + 1}" for k in range(len(moses_names), columns)))
        dense = np.zeros((rules.rules, len(names)))
        dense[rules.value_rule[: rules.values], name] = value
        used = np.ones(len(names), np.bool_)
        if self._layout.named:
            # The first entries of a vocabulary are special words. They are features only if lines contain them.
            used[:3] = np.bincount(name[name < 3], minlength=3) > 0
        return self._decoder_features(names, dense, used)

    def _decoder_features(
        self, names: Sequence[str], dense: NDArray[np.float64], used: NDArray[np.bool_]
    ) -> tuple[tuple[str, ...], NDArray[np.float64]]:
        """Return used feature names in export order, and their values for the decoder, float64[rules, used]."""
        canonical = [_NAMES_BY_CDEC_NAME.get(name, name) for name in names]
        order = sorted(
            np.flatnonzero(used).tolist(), key=lambda k: (_ORDER.get(canonical[k], len(_ORDER)), canonical[k])
        )
        columns = np.empty((len(dense), len(order)))
        for column, k in enumerate(order):
            columns[:, column] = dense[:, k]
            # Moses takes the logarithm of every score.
            if canonical[k] in _LOGARITHMIC or self._format == MOSES.name:
                # cdec stores common logarithms, other formats probabilities.
                if self._format == "cdec":
                    columns[:, column] *= math.log(10.0)
                else:
                    columns[:, column] = np.log(np.maximum(dense[:, k], _MIN_PROBABILITY))
        return tuple(canonical[k] for k in order), columns


_ORDER = {feature.name: k for k, feature in enumerate(FEATURES)}


def read_rule_file(path: Path, bar: Progress, format: str | None = None) -> tuple[TranslationRules, dict[str, Any]]:
    """Read rules from a file or the folder of an export, and the store's settings from a manifest, if any."""
    manifest: dict[str, Any] = {}
    if path.is_dir():
        try:
            manifest = read_manifest(path / MANIFEST)
        except ExportError as error:
            raise InputError(f"{path}: no export in this folder: {error}") from error
        path = path / str(manifest.get("file", ""))
    elif manifest_path(path).exists():
        manifest = read_manifest(manifest_path(path))
    format_by_suffix = format_from_name(path.name)
    format_name = format or manifest.get("format") or (format_by_suffix.name if format_by_suffix else None)
    if format_name is None:
        suffixes = ", ".join(FORMATS[name].suffix for name in _FORMATS)
        raise InputError(f"{path}: unknown format: use --format, or one of the suffixes {suffixes}")
    if format_name not in _FORMATS:
        raise InputError(f"{path}: {format_name} is not a format of translation rules: expected {', '.join(_FORMATS)}")
    names = tuple(manifest.get("features") or FORMATS[format_name].features)
    with open_lines(str(path)) as file:
        if format_name in _TABLES:
            reader = _read_table(path, format_name, names, bar)
        else:
            reader = RuleReader(file.name, format_name, names)
            for rules in reader.read(file.text_blocks()):
                bar.update(file.bytes_read, file.size, rules)
    return reader.table(), manifest.get("settings") or {}


def _read_table(file: Path, format: str, names: tuple[str, ...], bar: Progress) -> RuleReader:
    """Read rules from one of the formats in `_TABLES`. Feature `names` without a column are omitted."""
    import duckdb

    path = literal(str(file))
    zstd = ", compression='zstd'" if file.name.endswith(".zst") else ""
    tables = {
        "jsonl": f"read_json({path}, format='newline_delimited', maximum_object_size=16777216{zstd}, {_FLAT})",
        "tsv": f"read_csv({path}, delim='\t', quote='\"', escape='\"', header=true, all_varchar=true{zstd}, {_FLAT})",
        "parquet": f"read_parquet({path}, {_FLAT})",
    }
    with duckdb.connect(":memory:") as connection:
        try:
            columns = [str(row[0]) for row in connection.execute(f"DESCRIBE SELECT * FROM {tables[format]}").fetchall()]
            for column in _COLUMNS[:2]:
                if column not in columns:
                    raise InputError(f"{file}: column {column} not found: not a table of rules")
            names = tuple(name for name in names if name in columns)
            reader = RuleReader(str(file), format, names)
            # The reader expects lines in the layout `_TABBED`.
            texts = ", ".join(f"coalesce({name}, '')" if name in columns else "''" for name in _COLUMNS)
            values = ", ".join(f"CAST({name} AS VARCHAR)" for name in names) or "''"
            query = f"SELECT concat_ws('\t', {texts}, concat_ws(' ', {values})) FROM {tables[format]}"
            for rules in reader.read(Scratch(connection, 1 << 30).byte_blocks(query)):
                bar.update(rules, None, rules)
        except duckdb.Error as error:
            raise InputError(f"{file}: cannot be read: {' '.join(str(error).split())}") from error
    return reader
