"""TMX translation memories as a corpus: a unit's two languages are a sentence pair without an alignment.

The file is streamed: one unit is in memory at a time, and of a unit no more than a store takes.
"""

from collections.abc import Iterable, Iterator

from hierogram.daemon.corpora import xml_streams
from hierogram.daemon.corpora.lines import LINES_A_CHUNK
from hierogram.daemon.corpora.rejections import LINE_TOO_LONG, MISSING_FIELD, RejectionError
from hierogram.daemon.corpora.validation import LineColumns, reject
from hierogram.daemon.exceptions import InputError
from hierogram.storage.records import RejectedLine

_XML_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"
_CODES = frozenset({"bpt", "ept", "it", "ph", "ut"})
"""Elements that hold formatting of the original document, no words."""
_MOST_CHARACTERS = 1 << 20
"""A unit whose segments have more characters is no pair of any store."""
_MOST_VARIANTS = 1_000
_CHARACTERS_A_CHUNK = 1 << 22

_Unit = list[tuple[str, str]] | None
"""Languages and texts in the order of the file; None where they are too many or too long."""


class _Reader:
    """Hears what the parser finds, and keeps whole units until they are fetched."""

    def __init__(self) -> None:
        self.units: list[_Unit] = []
        self._variants: list[tuple[str, str]] = []
        self._language = ""
        self._text: list[str] | None = None
        self._size = 0
        self._codes = 0

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        """An element begins."""
        if tag == "tu":
            self._variants, self._size = [], 0
        elif tag == "tuv":
            self._language = attributes.get(_XML_LANGUAGE) or attributes.get("lang") or ""
        elif tag == "seg":
            self._text, self._codes = [], 0
        elif tag in _CODES:
            self._codes += 1

    def data(self, text: str) -> None:
        """Text of the element at hand."""
        if self._text is not None and not self._codes:
            self._size += len(text)
            if self._size <= _MOST_CHARACTERS:
                self._text.append(text)

    def end(self, tag: str) -> None:
        """An element ends."""
        if tag == "seg" and self._text is not None:
            if len(self._variants) <= _MOST_VARIANTS and self._size <= _MOST_CHARACTERS:
                self._variants.append((self._language, " ".join("".join(self._text).split())))
            self._text = None
        elif tag == "tu":
            long = len(self._variants) > _MOST_VARIANTS or self._size > _MOST_CHARACTERS
            self.units.append(None if long else self._variants)
            self._variants = []
        elif tag in _CODES:
            self._codes -= 1


def memory_fields(blocks: Iterable[bytes], name: str, languages: tuple[str, str] | None) -> Iterator[LineColumns]:
    """The units of a memory, numbered from 1, in chunks; `languages` of source and target, `en` also for `en-GB`.

    Without `languages` they are those of the first unit, in its order. Raises `InputError` where the file is no TMX,
    is damaged, or declares entities.
    """
    first = 1
    for units in _chunks(_units(blocks, name)):
        if languages is None:
            languages = _languages_of(units[0], name)
        yield _as_fields(units, first, languages)
        first += len(units)


def _units(blocks: Iterable[bytes], name: str) -> Iterator[_Unit]:
    def check_root(root: str) -> None:
        if root != "tmx":
            raise InputError(f"{name}: is no TMX: its outermost element is <{root}>, not <tmx>")

    return xml_streams.units(blocks, name, _Reader(), check_root)


def _chunks(units: Iterator[_Unit]) -> Iterator[list[_Unit]]:
    chunk: list[_Unit] = []
    held = 0
    for unit in units:
        chunk.append(unit)
        held += sum(len(text) for _, text in unit or ())
        if len(chunk) == LINES_A_CHUNK or held > _CHARACTERS_A_CHUNK:
            yield chunk
            chunk, held = [], 0
    if chunk:
        yield chunk


def _languages_of(unit: _Unit, name: str) -> tuple[str, str]:
    found = list(dict.fromkeys(language for language, _ in unit or ()))
    if len(found) != 2:
        raise InputError(
            f"{name}: the first unit has {len(found)} languages ({', '.join(found[:10])}): say which two with "
            "--languages"
        )
    return found[0], found[1]


def _as_fields(units: list[_Unit], first: int, languages: tuple[str, str]) -> LineColumns:
    numbers: list[int] = []
    rejected: list[RejectedLine] = []
    sources: list[bytes] = []
    targets: list[bytes] = []
    for number, unit in enumerate(units, first):
        if unit is None:
            bounds = f"more than {_MOST_CHARACTERS:,} characters or {_MOST_VARIANTS:,} variants"
            rejected.append(reject(number, RejectionError(LINE_TOO_LONG, f"the unit has {bounds}"), b""))
            continue
        texts = [_text_in(unit, language) for language in languages]
        missing = [language for language, text in zip(languages, texts, strict=True) if text is None]
        if missing:
            rejection = RejectionError(MISSING_FIELD, f"the unit has no text in {' and '.join(missing)}")
            rejected.append(reject(number, rejection, " ||| ".join(f"{code}: {text}" for code, text in unit).encode()))
            continue
        numbers.append(number)
        sources.append((texts[0] or "").encode())
        targets.append((texts[1] or "").encode())
    return LineColumns(numbers, sources, targets, [None] * len(numbers), [None] * len(numbers), rejected=rejected)


def _text_in(unit: list[tuple[str, str]], language: str) -> str | None:
    """The unit's first text in the language; a region that was not asked for does not matter."""
    wanted = language.lower()
    for code, text in unit:
        found = code.lower()
        if found == wanted or found.startswith((f"{wanted}-", f"{wanted}_")):
            return text
    return None
