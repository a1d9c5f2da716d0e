"""A dictionary or a list of terms as an input: TBX, CSV, TSV; each entry is a pair without an alignment.

TBX files [ISO 30042] may be of any dialect: older ones are `martif` with `termEntry`, `langSet` and `tig` or `ntig`,
newer ones `tbx` with `conceptEntry`, `langSec` and `termSec`. They are streamed: one concept is in memory at a time. A
file that declares entities is refused; the document type that old files name is not fetched.
"""

import csv
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import islice, product
from types import TracebackType
from typing import Self

from hierogram.daemon.corpora import xml_streams
from hierogram.daemon.corpora.lines import LINES_A_CHUNK, LineFile, open_lines
from hierogram.daemon.corpora.rejections import DEFAULT_LIMITS, FIELD_COUNT, MISSING_FIELD, Limits, RejectionError
from hierogram.daemon.corpora.texts import Languages
from hierogram.daemon.corpora.validation import LineColumns, reject
from hierogram.daemon.exceptions import InputError, UsageError
from hierogram.samplers.grammar.kinds import SOURCE, TARGET
from hierogram.storage.records import CSV_ENTRIES, TBX_ENTRIES, TSV_ENTRIES

Concept = list[tuple[str, str]]
"""Language and term, in the order of the file."""

_XML_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"
_ROOTS = frozenset({"martif", "tbx"})
_CONCEPTS = frozenset({"termEntry", "conceptEntry"})
_LANGUAGES = frozenset({"langSet", "langSec"})
_MOST_CHARACTERS = 1 << 16
"""A term is cut behind so many characters, which no store takes as one."""


class _ConceptReader:
    """Hears what the parser finds, and keeps whole concepts until they are fetched."""

    def __init__(self) -> None:
        self.units: list[Concept] = []
        self._concept: Concept = []
        self._language = ""
        self._text: list[str] | None = None
        self._size = 0

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        """An element begins."""
        name = _local(tag)
        if name in _CONCEPTS:
            self._concept = []
        elif name in _LANGUAGES:
            self._language = attributes.get(_XML_LANGUAGE) or attributes.get("lang") or ""
        elif name == "term":
            self._text, self._size = [], 0

    def data(self, text: str) -> None:
        """Text of the element at hand."""
        if self._text is not None and self._size < _MOST_CHARACTERS:
            self._text.append(text)
            self._size += len(text)

    def end(self, tag: str) -> None:
        """An element ends."""
        name = _local(tag)
        if name == "term" and self._text is not None:
            term = " ".join("".join(self._text).split())
            if term:
                self._concept.append((self._language, term))
            self._text = None
        elif name in _CONCEPTS:
            self.units.append(self._concept)
            self._concept = []


def concepts(blocks: Iterable[bytes], name: str) -> Iterator[Concept]:
    """The concepts of a file, in its order.

    Raises `InputError` where it is no TBX, is damaged, or declares entities.
    """

    def check_root(root: str) -> None:
        if _local(root) not in _ROOTS:
            raise InputError(f"{name}: is no TBX: its outermost element is <{_local(root)}>, not <tbx> or <martif>")

    return xml_streams.units(blocks, name, _ConceptReader(), check_root)


def _local(tag: str) -> str:
    return tag.rpartition("}")[2]


_FORMATS = {"tbx": TBX_ENTRIES, "csv": CSV_ENTRIES, "tsv": TSV_ENTRIES}
_DELIMITERS = {CSV_ENTRIES: ",", TSV_ENTRIES: "\t"}

_Entry = tuple[int, str, str]
"""Number of the line or concept, source and target."""


class Dictionary:
    """An open file of entries; a context manager that closes it.

    TBX: each term of the source language with each of the target language of a concept. CSV and TSV: a source and a
    target column, which the first line names: by the languages, or as `source` and `target`. Raises `InputError` where
    the file cannot be opened or its first line names no such columns, `UsageError` where its format cannot be told.
    """

    def __init__(self, path: str, format: str = "auto", limits: Limits = DEFAULT_LIMITS) -> None:
        """Opens the file."""
        name = path.lower().removesuffix(".gz").removesuffix(".zst").rpartition(".")[2] if format == "auto" else format
        if name not in _FORMATS:
            raise UsageError(f"--dictionary {path}: name its format: --format {', '.join(_FORMATS)}")
        self.format = _FORMATS[name]
        self._languages: Languages | None = None
        with ExitStack() as stack:
            self._file: LineFile = stack.enter_context(open_lines(path, limits))
            self._close = stack.pop_all().close

    def choose(self, languages: Languages | None) -> None:
        """See `Source.choose`."""
        self._languages = languages

    @property
    def fields(self) -> Iterator[LineColumns]:
        """Its entries; to be asked for once."""
        rejected: list[tuple[int, RejectionError, str]] = []
        entries = self._of_concepts(rejected) if self.format == TBX_ENTRIES else self._of_rows(rejected)
        while True:
            some = list(islice(entries, LINES_A_CHUNK))
            if not some and not rejected:
                return
            yield LineColumns(
                [number for number, _, _ in some],
                [source.encode("utf-8", "surrogateescape") for _, source, _ in some],
                [target.encode("utf-8", "surrogateescape") for _, _, target in some],
                [None] * len(some),
                [None] * len(some),
                rejected=[
                    reject(number, problem, content.encode("utf-8", "surrogateescape"))
                    for number, problem, content in rejected
                ],
            )
            rejected.clear()

    @property
    def origin(self) -> str:
        """The file's absolute name."""
        return self._file.name

    @property
    def bytes_read(self) -> int:
        """Bytes read so far."""
        return self._file.bytes_read

    @property
    def bytes_total(self) -> int | None:
        """Bytes in all; None where that is not known."""
        return self._file.size

    def _of_concepts(self, rejected: list[tuple[int, RejectionError, str]]) -> Iterator[_Entry]:
        languages = self._languages
        for number, concept in enumerate(concepts(self._file.blocks(), self.origin), 1):
            if languages is None:
                languages = self._languages_of(concept)
            sides = [[term for code, term in concept if _is_of(code, language)] for language in languages]
            missing = [language for language, terms in zip(languages, sides, strict=True) if not terms]
            if missing:
                problem = RejectionError(MISSING_FIELD, f"the concept has no term in {' and '.join(missing)}")
                rejected.append((number, problem, " ||| ".join(f"{code}: {term}" for code, term in concept)))
            for source, target in product(*sides):
                yield number, source, target

    def _languages_of(self, concept: Concept) -> Languages:
        found = list(dict.fromkeys(code for code, _ in concept))
        if len(found) != 2:
            raise InputError(
                f"{self.origin}: the first concept has {len(found)} languages ({', '.join(found)}): say which two with "
                "--languages"
            )
        return found[0], found[1]

    def _of_rows(self, rejected: list[tuple[int, RejectionError, str]]) -> Iterator[_Entry]:
        # Quotes are letters in files with tabs.
        rows_of = partial(csv.reader, quoting=csv.QUOTE_NONE) if self.format == TSV_ENTRIES else csv.reader
        lines = (line.decode("utf-8", "surrogateescape") + "\n" for chunk in self._file.chunks() for line in chunk)
        rows = rows_of(lines, delimiter=_DELIMITERS[self.format])
        columns: tuple[int, int] | None = None
        try:
            for row in rows:
                if columns is None:
                    if not any(map(str.strip, row)):
                        continue
                    columns = self._named(row)
                    continue
                if not any(map(str.strip, row)):
                    continue
                if len(row) <= max(columns):
                    fields = f"{len(row)} field{'s' * (len(row) > 1)}"
                    problem = RejectionError(FIELD_COUNT, f"the line has {fields}: no source and target")
                    rejected.append((rows.line_num, problem, " ".join(row)))
                else:
                    yield rows.line_num, _tidy(row[columns[0]]), _tidy(row[columns[1]])
        except csv.Error as error:
            raise InputError(f"{self.origin}: line {rows.line_num} cannot be read: {error}") from error

    def _named(self, row: Sequence[str]) -> tuple[int, int]:
        """The columns of source and target; raises `InputError` where the row, the file's first, names none."""
        names = [name.strip().removeprefix("\ufeff").lower() for name in row]
        for source, target in (self._languages or (SOURCE, TARGET), (SOURCE, TARGET)):
            columns = [[k for k, name in enumerate(names) if _is_of(name, side)] for side in (source, target)]
            if all(columns):
                return columns[0][0], columns[1][0]
        wanted = [(SOURCE, TARGET), *([self._languages] if self._languages else [])]
        headers = " or ".join(
            f"`{_DELIMITERS[self.format].join(names).replace(chr(9), ' (tab) ')}`" for names in wanted
        )
        raise InputError(
            f"{self.origin}: line 1 names no source and target column, but has {', '.join(map(repr, row[:4]))}: "
            f"begin the file with a line {headers}; where its columns have other names, change them or name the "
            "languages with --languages"
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._close()


def _tidy(cell: str) -> str:
    return " ".join(cell.split())


def _is_of(code: str, language: str) -> bool:
    """Whether a term's language is the one that is asked for; a region that was not asked for does not matter."""
    found, wanted = code.lower().replace("_", "-"), language.lower().replace("_", "-")
    return found == wanted or found.startswith(f"{wanted}-")
