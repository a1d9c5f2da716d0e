"""Files of rules in any format that exports have: read in blocks as columns, features by the names of exports."""

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hierogram.daemon.corpora.lines import open_lines
from hierogram.daemon.exceptions import ExportError, InputError
from hierogram.daemon.exports.formats.cdec import NAMES
from hierogram.daemon.exports.formats.format import BY_NAME, FEATURES
from hierogram.daemon.exports.formats.registry import FORMATS, promised_format
from hierogram.daemon.exports.publication import MANIFEST, manifest_path, read_manifest
from hierogram.daemon.exports.scratch import Scratch, quoted
from hierogram.daemon.progress import Progress
from hierogram.samplers.decoding.grammar import RuleColumns
from hierogram.samplers.decoding.reading import (
    AT,
    LINE,
    MORE,
    NO_FIELDS,
    NO_LINK,
    NO_NAME,
    NO_NUMBER,
    NO_NUMBER_OF_ITS_OWN,
    NO_ROOM,
    NO_VOCABULARY,
    Layout,
    RuleLines,
    Vocabularies,
    read_rules,
    room_for,
    with_numbered_gaps,
)
from hierogram.samplers.language_models.vocabulary import GrowingVocabulary

Change = Callable[[NDArray[np.float64]], NDArray[np.float64]]

_LOGARITHMIC = (*(name for name, feature in BY_NAME.items() if feature.probability), "count")
_CANONICAL = {exported: name for name, exported in NAMES.items()} | {"IsGlue": "glue"}
_LEAST = 1e-100
"""A probability of 0 is taken for this one."""
_TO_NATURAL = partial(np.multiply, math.log(10.0))
DROPPED = "glue"
"""0 in every rule of an export; decoding counts glue itself."""


def _log(values: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.log(np.maximum(values, _LEAST))


def changes_of(format: str, names: Sequence[str]) -> list[tuple[str, Change]]:
    """Return what the values of a format are called here, and how they become what they are here."""
    logarithms: dict[str, Change] = {"cdec": _TO_NATURAL, "thrax": np.negative, "joshua": np.negative}
    changed = logarithms.get(format, _log)
    canonical = [_CANONICAL.get(name, name) for name in names]
    return [(name, changed if name in _LOGARITHMIC else np.asarray) for name in canonical]


TABLES = ("jsonl", "tsv", "parquet")
_COLUMNS = ("source", "target", "alignment")
_PLAIN = "hive_partitioning=false"
"""A name such as `language=zh` in a path is not a column."""
_LINES = Layout(tabs=False, source=1, target=2, values=3, links=4, named=True, labeled=False)
LAYOUTS = {
    "cdec": _LINES,
    "thrax": _LINES,
    "joshua": _LINES._replace(named=False),
    "moses": Layout(tabs=False, source=0, target=1, values=2, links=3, named=False, labeled=True),
}
TABBED = Layout(tabs=True, source=0, target=1, values=3, links=2, named=False, labeled=False)
_FAULTS = {
    NO_FIELDS: "a rule has a source side, a target side and values, with ||| between them",
    NO_NUMBER: "a feature's value is not a number",
    NO_NAME: "features of this format are Name=value",
    NO_LINK: "links are pairs of positions, i-j",
}
_NUMBERED = re.compile(r"\[[^\[\]\s,]+,([1-9][0-9]?)\]")
_NUMBERED_IN_TABLES = re.compile(r"\[X,([1-9][0-9]?)\]")
_LINKED = re.compile(r"\[X\]\[X\]")
_FIRST_RULES = 1 << 16
_ESCAPES = {
    "moses": (("&#124;", "|"), ("&#91;", "["), ("&#93;", "]"), ("&bar;", "|"), ("&lt;", "<"), ("&gt;", ">")),
    "joshua": (("-pipe-", "|"), ("-lsb-", "["), ("-rsb-", "]")),
}
_ESCAPES["thrax"] = _ESCAPES["joshua"]


@dataclass(frozen=True, slots=True)
class WordedRules:
    """Rules as columns, symbols by the words of each side, and the names of their features; `lines`: where they
    stand."""

    columns: RuleColumns
    source_words: list[str]
    target_words: list[str]
    features: tuple[str, ...]
    lines: NDArray[np.int64]


class RuleReader:
    """Takes bytes of rules in one format, and makes a table of them; `name` is what errors call the input."""

    def __init__(self, name: str, format: str, names: tuple[str, ...], layout: Layout) -> None:
        self.name = name
        self._format = format
        self._names = names
        self._layout = layout
        self._source = GrowingVocabulary()
        self._target = GrowingVocabulary()
        self._given = GrowingVocabulary()
        self._rules = room_for(_FIRST_RULES)
        self._cursor = np.array([0, 1], np.int64)

    @property
    def rules(self) -> int:
        """Rules read so far."""
        return self._rules.rules

    def read(self, blocks: Iterable[bytes]) -> Iterator[int]:
        """Read bytes block by block; the rules so far, after each. Raises `InputError`, which names the line."""
        rest = b""
        for block in blocks:
            rest = self._take(rest + block)
            yield self.rules
        if rest:
            self._take(rest + b"\n")
        yield self.rules

    def _take(self, data: bytes) -> bytes:
        """Read all whole lines; what is left."""
        text = np.frombuffer(bytearray(data), np.uint8)
        self._cursor[AT] = 0
        while True:
            outcome = read_rules(text, self._cursor, self._layout, self._vocabularies(), self._rules)
            if outcome == MORE:
                return data[int(self._cursor[AT]) :]
            if outcome == NO_ROOM:
                self._rules = room_for(2 * len(self._rules.line), self._rules)
            elif outcome == NO_VOCABULARY:
                self._grow(len(data))
            else:
                raise self._fault(int(self._cursor[LINE]), _FAULTS[outcome])

    def _vocabularies(self) -> Vocabularies:
        return Vocabularies(
            self._source.arrays,
            self._source.size,
            self._target.arrays,
            self._target.size,
            self._given.arrays,
            self._given.size,
        )

    def _grow(self, letters: int) -> None:
        vocabularies = (self._source, self._target, self._given)
        full = [vocabulary for vocabulary in vocabularies if _is_full(vocabulary, letters)]
        for vocabulary in full:
            vocabulary.grow(letters)

    def _fault(self, line: int, reason: str) -> InputError:
        return InputError(f"{self.name}: line {line}: {reason}")

    def table(self, values: NDArray[np.float64] | None = None) -> WordedRules:
        """Return the rules that were read, with `values` float64[rules, names] where their lines have none.

        Raises `InputError` where nonterminals or links do not fit the sides of one.
        """
        rules = self._rules
        source, source_words = self._meanings(self._source)
        target, target_words = self._meanings(self._target)
        if values is None:
            names, features = self._features(rules)
        else:
            names, features = self._canonical(self._names, values, np.ones(len(self._names), np.bool_))
        columns, fault = with_numbered_gaps(rules.columns(source, target, features))
        if fault >= 0:
            raise self._fault(
                int(rules.line[fault]),
                "its nonterminals or links do not fit: each nonterminal stands once on each side",
            )
        return WordedRules(columns, source_words, target_words, names, rules.line[: rules.rules].copy())

    def _meanings(self, vocabulary: GrowingVocabulary) -> tuple[NDArray[np.int32], list[str]]:
        """Return what each symbol is, and the words in the order of their numbers."""
        named = vocabulary.finish()
        meanings = np.zeros(len(named), np.int32)
        words: list[str] = []
        numbers: dict[str, int] = {}
        numbered = _NUMBERED_IN_TABLES if self._layout.tabs else _NUMBERED
        for symbol in range(len(named)):
            spelled = named.word(symbol)
            if match := numbered.fullmatch(spelled):
                meanings[symbol] = -int(match[1])
            elif self._format == "moses" and _LINKED.fullmatch(spelled):
                meanings[symbol] = NO_NUMBER_OF_ITS_OWN
            else:
                word = self._word(spelled)
                meanings[symbol] = numbers.setdefault(word, len(words))
                if len(numbers) > len(words):
                    words.append(word)
        return meanings, words

    def _word(self, spelled: str) -> str:
        if self._format in _ESCAPES:
            for written, meant in _ESCAPES[self._format]:
                spelled = spelled.replace(written, meant)
            return spelled.replace("&amp;", "&") if self._format == "moses" else spelled
        return spelled[1:] if spelled.startswith("\\") and len(spelled) > 1 else spelled

    def _features(self, rules: RuleLines) -> tuple[tuple[str, ...], NDArray[np.float64]]:
        """Return names of features, and a row for each rule; a value that is not given is 0."""
        value, name = rules.value[: rules.values], rules.value_name[: rules.values]
        if self._layout.named:
            given = self._given.finish()
            # The first words of a vocabulary are not names that were read.
            names = tuple(given.word(number) for number in range(len(given)))
        else:
            most = int(name.max(initial=-1)) + 1
            names = self._names if len(self._names) >= most else tuple(f"value_{k + 1}" for k in range(most))
        dense = np.zeros((rules.rules, len(names)))
        dense[rules.value_rule[: rules.values], name] = value
        used = np.ones(len(names), np.bool_)
        if self._layout.named:
            used[:3] = np.bincount(name[name < 3], minlength=3) > 0
        return self._canonical(names, dense, used)

    def _canonical(
        self, names: Sequence[str], dense: NDArray[np.float64], used: NDArray[np.bool_]
    ) -> tuple[tuple[str, ...], NDArray[np.float64]]:
        """Return the names and values that are used, float64[rules, used], as meant here, in exports' order."""
        changed = changes_of(self._format, names)
        used = used & np.array([canonical != DROPPED for canonical, _ in changed], np.bool_)
        order = sorted(np.flatnonzero(used).tolist(), key=lambda k: _place(changed[k][0]))
        columns = np.empty((len(dense), len(order)))
        for at, k in enumerate(order):
            columns[:, at] = changed[k][1](dense[:, k])
        return tuple(changed[k][0] for k in order), columns


def _is_full(vocabulary: GrowingVocabulary, letters: int) -> bool:
    """Return whether there may be no room for a word of `letters` bytes."""
    words, (text, starts, slots) = len(vocabulary), vocabulary.arrays
    return words + 2 > len(starts) or 2 * (words + 1) > len(slots) or int(starts[words]) + letters > len(text)


_ORDER = {feature.name: k for k, feature in enumerate(FEATURES)}


def _place(name: str) -> tuple[int, str]:
    """Features of exports come first, in their order; others by name."""
    return (_ORDER.get(name, len(_ORDER)), name)


@dataclass(frozen=True, slots=True)
class RuleFile:
    """A file of rules: its format, the names of its features where values have none, and its store's settings.

    `settings` are those of the manifest, empty without one.
    """

    path: Path
    format: str
    names: tuple[str, ...]
    settings: dict[str, Any]


def find_rule_file(path: Path, format: str | None = None) -> RuleFile:
    """Return the file of rules at a path, or of a version's folder.

    Raises `InputError` where its format is not known.
    """
    manifest: dict[str, Any] = {}
    if path.is_dir():
        try:
            manifest = read_manifest(path / MANIFEST)
        except ExportError as error:
            raise InputError(f"{path}: is a folder without an export: {error}") from error
        path = path / str(manifest.get("file", ""))
    elif manifest_path(path).exists():
        manifest = read_manifest(manifest_path(path))
    promised = promised_format(path.name)
    named = format or manifest.get("format") or (promised.name if promised else None)
    if named is None:
        raise InputError(
            f"{path}: neither a manifest nor the name says what format this is: give --format, or end the name "
            f"in {', '.join(FORMATS[name].suffix for name in (*LAYOUTS, *TABLES))}"
        )
    if named not in (*LAYOUTS, *TABLES):
        known = ", ".join((*LAYOUTS, *TABLES))
        raise InputError(f"{path}: {named} is not a format of translation rules; there are {known}")
    features = tuple(manifest.get("features") or FORMATS[named].features)
    return RuleFile(path, named, features, manifest.get("settings") or {})


def read_rule_file(found: RuleFile, shown: Progress) -> WordedRules:
    """Return the rules of a file; raises `InputError`, which names the line where one is wrong."""
    if found.format in TABLES:
        return _read_table(found, shown)
    with open_lines(str(found.path)) as file:
        reader = RuleReader(file.name, found.format, found.names, LAYOUTS[found.format])
        for rules in reader.read(file.blocks()):
            shown.update(file.bytes_read, file.size, rules)
    return reader.table()


def _read_table(found: RuleFile, shown: Progress) -> WordedRules:
    import tempfile

    import duckdb

    path = quoted(str(found.path))
    zstd = ", compression='zstd'" if found.path.name.endswith(".zst") else ""
    tables = {
        "jsonl": f"read_json({path}, format='newline_delimited', maximum_object_size=16777216{zstd}, {_PLAIN})",
        "tsv": f"read_csv({path}, delim='\t', quote='\"', escape='\"', header=true, all_varchar=true{zstd}, {_PLAIN})",
        "parquet": f"read_parquet({path}, {_PLAIN})",
    }
    with duckdb.connect(":memory:") as connection, tempfile.TemporaryDirectory(prefix="hierogram-") as folder:
        try:
            described = connection.execute(f"DESCRIBE SELECT * FROM {tables[found.format]}").fetchall()
            there = [str(row[0]) for row in described]
            for column in _COLUMNS[:2]:
                if column not in there:
                    raise InputError(f"{found.path}: has no column {column}: is it a table of rules?")
            names = tuple(name for name in found.names if name in there)
            reader = RuleReader(str(found.path), found.format, names, TABBED)
            scratch = Scratch(connection, Path(folder), 1 << 30)
            for rules in reader.read(scratch.lines(_tabbed(tables[found.format], there, names))):
                shown.update(rules, None, rules)
        except duckdb.Error as error:
            raise InputError(f"{found.path}: cannot be read: {' '.join(str(error).split())}") from error
    return reader.table()


def _tabbed(table: str, there: list[str], names: tuple[str, ...]) -> str:
    """Return a query of lines as `TABBED` has them."""
    texts = [f"coalesce({name}, '')" if name in there else "''" for name in _COLUMNS]
    values = ", ".join(f"CAST({name} AS VARCHAR)" for name in names)
    return f"SELECT concat_ws('\t', {', '.join(texts)}, concat_ws(' ', {values or chr(39) * 2})) FROM {table}"
