"""Dictionaries and term lists as input: TBX, CSV, TSV. Each entry is a pair without an alignment.

TBX files [ISO 30042] may be of any dialect: older ones use `martif` with `termEntry`, `langSet` and `tig` or `ntig`,
newer ones `tbx` with `conceptEntry`, `langSec` and `termSec`. They are streamed. A file that declares entities is
refused. External DTDs are not downloaded. Terms that a file marks as deprecated, superseded, obsolete or forbidden are
rejected.
"""

import csv
import re
from collections.abc import Iterator, Sequence
from itertools import islice, product
from typing import NamedTuple

from hierogram.daemon.exceptions import InputError, UsageError
from hierogram.daemon.files import strip_input_suffix
from hierogram.daemon.text import xml_streams
from hierogram.daemon.text.lines import LINES_PER_CHUNK, open_lines
from hierogram.daemon.text.pair_files import OpenFiles
from hierogram.daemon.text.pipeline import Languages
from hierogram.daemon.text.rejections import DEPRECATED_TERM, FIELD_COUNT, MISSING_FIELD, RejectionError
from hierogram.daemon.text.validation import LineColumns, reject
from hierogram.samplers.grammar.kinds import SOURCE, TARGET
from hierogram.storage.records.pairs import CSV_ENTRIES, TBX_ENTRIES, TSV_ENTRIES, RejectedLine


class ConceptTerm(NamedTuple):
    """Term of a concept. `status` is the label by which the file forbids the term, None for other terms."""

    language: str
    term: str
    status: str | None = None


Concept = list[ConceptTerm]
"""Terms of a concept in all languages, in file order."""

_CONCEPTS = frozenset({"termEntry", "conceptEntry"})
_LANGUAGES = frozenset({"langSet", "langSec"})
_LEVELS = _CONCEPTS | _LANGUAGES | {"tig", "ntig", "termSec"}
"""Elements whose data categories, such as a status, apply to all terms within them."""
_TEXTS = frozenset({"note", "descrip"})
"""Elements whose content is free text, unless their attribute `type` names a status."""
_STATUS_TYPE = re.compile("status|usage|authorization|qualifier|approv", re.IGNORECASE)
_MAX_CHARACTERS = 1 << 16
"""Approximate number of characters after which a term is cut."""
_FORBIDDEN = re.compile(
    r"\W*(?:deprecated|superseded|obsolete|outdated|forbidden|prohibited|rejected"
    r"|not[ _-]?recommended|do[ _-]?not[ _-]?use)"
    r"(?:[ _-]?term)?(?:[ _-]?admn[ _-]?sts)?\W*",
    re.IGNORECASE,
)
"""Values of data categories, such as `administrativeStatus`, that mark a term as forbidden."""
_TRUE_VALUES = ("true", "yes", "1")
_MAX_STATUS_LENGTH = 100


class _Reader(xml_streams.UnitReader[Concept]):
    def __init__(self, name: str) -> None:
        super().__init__(name, "TBX", "tbx", "martif")
        self._concept: Concept = []
        self._language = ""
        self._text: list[str] | None = None
        self._size = 0
        self._value = self._type = ""
        self._levels: list[tuple[int, str | None]] = []
        """Open elements of `_LEVELS`: index of the first term, and status of the terms."""

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        name = tag.rpartition("}")[2]
        super().start(name, attributes)
        self._value, self._type = "", attributes.get("type") or ""
        if name in _CONCEPTS:
            self._concept = []
        elif name in _LANGUAGES:
            self._language = attributes.get(xml_streams.LANGUAGE) or attributes.get("lang") or ""
        elif name == "term":
            self._text, self._size = [], 0
        if name in _LEVELS:
            self._levels.append((len(self._concept), None))

    def data(self, text: str) -> None:
        super().data(text)
        if self._text is None:
            self._value += text[: _MAX_STATUS_LENGTH - len(self._value)]
        elif self._size < _MAX_CHARACTERS:
            self._text.append(text)
            self._size += len(text)

    def end(self, tag: str) -> None:
        super().end(tag)
        name = tag.rpartition("}")[2]
        if name == "term" and self._text is not None:
            term = " ".join("".join(self._text).split())
            if term:
                self._concept.append(ConceptTerm(self._language, term))
            self._text = None
        elif self._levels and self._marks_forbidden(name):
            self._levels[-1] = self._levels[-1][0], self._value.strip()
        self._value = ""
        if name in _LEVELS:
            first, status = self._levels.pop()
            terms = self._concept[first:]
            self._concept[first:] = [entry._replace(status=entry.status or status) for entry in terms]
        if name in _CONCEPTS:
            self.units.append(self._concept)
            self._concept = []

    def _marks_forbidden(self, name: str) -> bool:
        if self._text is None and _FORBIDDEN.fullmatch(self._type):
            # The type may also be a flag, as in `<termNote type="forbidden">true</termNote>`.
            return self._value.strip().lower() in _TRUE_VALUES
        is_free_text = self._text is not None or (name in _TEXTS and not _STATUS_TYPE.search(self._type))
        return not is_free_text and _FORBIDDEN.fullmatch(self._value) is not None


_FORMATS = {"tbx": TBX_ENTRIES, "csv": CSV_ENTRIES, "tsv": TSV_ENTRIES}

_Entry = tuple[int, str, str]
"""Number of the line or concept, source, target."""


def _reject(number: int, reason: str, message: str, content: str) -> RejectedLine:
    return reject(number, RejectionError(reason, message), content.encode("utf-8", "surrogateescape"))


class Dictionary(OpenFiles):
    """Open dictionary file, as a `PairInput`. As a context manager, it closes the file.

    In TBX, each source term of a concept is paired with each target term, except forbidden terms. In CSV and TSV, the
    header names source and target columns by language, or as `source` and `target`. A column such as `status` may mark
    forbidden entries. `format` is `tbx`, `csv`, `tsv`, or `auto` to choose it by the file name. Raises `InputError`, or
    `UsageError` for an unknown format.
    """

    def __init__(self, path: str, format: str = "auto") -> None:
        super().__init__()
        name = strip_input_suffix(path.lower()).rpartition(".")[2] if format == "auto" else format
        if name not in _FORMATS:
            if format != "auto":
                raise UsageError(f"--format {format}: expected {', '.join(_FORMATS)} with --dictionary")
            expected = ", ".join(f".{suffix}" for suffix in _FORMATS)
            raise UsageError(f"{path}: unknown suffix: expected {expected}, or choose the format with --format")
        self.format = _FORMATS[name]
        self._files = [self.enter_context(open_lines(path))]

    def line_chunks(self, languages: Languages | None) -> Iterator[LineColumns]:
        """Yield the entries in chunks. Can be called once. Raises `InputError`."""
        entries = (self._concept_entries if self.format == TBX_ENTRIES else self._row_entries)(languages)
        while chunk := list(islice(entries, LINES_PER_CHUNK)):
            columns = LineColumns()
            for entry in chunk:
                if isinstance(entry, RejectedLine):
                    columns.rejected.append(entry)
                else:
                    source, target = (side.encode("utf-8", "surrogateescape") for side in entry[1:])
                    columns.append(entry[0], source, target)
            yield columns

    def _concept_entries(self, languages: Languages | None) -> Iterator[_Entry | RejectedLine]:
        for number, concept in enumerate(xml_streams.read_units(self._files[0].blocks(), _Reader(self.origin)), 1):
            if languages is None:
                languages = xml_streams.unit_languages((term.language for term in concept), self.origin, "concept")
            sides = xml_streams.split_by_language(concept, languages)
            for term in (term for side in sides for term in side if term.status is not None):
                message = f"the term {term.term!r} is marked as {term.status}"
                yield _reject(number, DEPRECATED_TERM, message, f"{term.language}: {term.term}")
            missing = [language for language, terms in zip(languages, sides, strict=True) if not terms]
            if missing:
                message = f"the concept has no term in {' and '.join(missing)}"
                content = " ||| ".join(f"{term.language}: {term.term}" for term in concept)
                yield _reject(number, MISSING_FIELD, message, content)
            for source, target in product(*([term.term for term in side if term.status is None] for side in sides)):
                yield number, source, target

    def _row_entries(self, languages: Languages | None) -> Iterator[_Entry | RejectedLine]:
        lines = (line.decode("utf-8", "surrogateescape") + "\n" for chunk in self._files[0].chunks() for line in chunk)
        # Quotation marks are ordinary characters in TSV.
        is_tsv = self.format == TSV_ENTRIES
        rows = csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE) if is_tsv else csv.reader(lines)
        filled_rows = (row for row in rows if any(map(str.strip, row)))
        try:
            header = next(filled_rows, None)
            if header is None:
                return
            columns = self._find_columns(header, rows.line_num, languages)
            statuses = [k for k, name in enumerate(header) if k not in columns and _STATUS_TYPE.search(name)]
            for row in filled_rows:
                if len(row) <= max(columns):
                    message = f"expected source and target, got {len(row)} field{'s' * (len(row) > 1)}"
                    yield _reject(rows.line_num, FIELD_COUNT, message, " ".join(row))
                    continue
                source, target = (" ".join(row[column].split()) for column in columns)
                marked = [row[k].strip() for k in statuses if k < len(row) and _FORBIDDEN.fullmatch(row[k])]
                if marked:
                    message = f"the entry {source!r} is marked as {marked[0]}"
                    yield _reject(rows.line_num, DEPRECATED_TERM, message, " ".join(row))
                else:
                    yield rows.line_num, source, target
        except csv.Error as error:
            raise InputError(f"{self.origin}, line {rows.line_num}: cannot be read: {error}") from error

    def _find_columns(self, header: Sequence[str], line: int, languages: Languages | None) -> tuple[int, int]:
        names = [name.strip().removeprefix("\ufeff").lower() for name in header]
        for source, target in (languages or (SOURCE, TARGET), (SOURCE, TARGET)):
            sources = [k for k, name in enumerate(names) if xml_streams.matches_language(name, source)]
            targets = [k for k, name in enumerate(names) if xml_streams.matches_language(name, target)]
            if sources and targets:
                return sources[0], targets[0]
        delimiter = "," if self.format == CSV_ENTRIES else " (tab) "
        accepted = [(SOURCE, TARGET), languages] if languages else [(SOURCE, TARGET)]
        examples = " or ".join(f"`{delimiter.join(names)}`" for names in accepted)
        problem = f"the header must name a source and a target column, got {', '.join(map(repr, header[:4]))}"
        advice = f"add the header {examples}, or name the languages of the columns with --languages"
        raise InputError(f"{self.origin}, line {line}: {problem}: {advice}")
