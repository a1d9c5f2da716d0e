"""TMX translation memories as a corpus: a unit's two languages are a sentence pair without an alignment.

The file is streamed: one unit is in memory at a time. Entities are not expanded and nothing is fetched; a file that
declares any is refused.
"""

from collections.abc import Iterable, Iterator
from typing import Protocol, cast

from defusedxml.ElementTree import DefusedXMLParser

from hierogram.daemon.corpora.lines import LINES_A_CHUNK
from hierogram.daemon.corpora.rejections import MISSING_FIELD, RejectionError
from hierogram.daemon.corpora.validation import Fields, reject
from hierogram.daemon.exceptions import InputError
from hierogram.daemon.xml_errors import xml_errors_named
from hierogram.storage.records import RejectedLine

_XML_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"
_CODES = frozenset({"bpt", "ept", "it", "ph", "ut"})
"""Elements that hold formatting of the original document, no words."""
_MOST_CHARACTERS = 1 << 20
"""A segment's text is cut behind so many characters, which no store takes as a pair."""


class _Reader:
    """Hears what the parser finds, and keeps whole units until they are fetched."""

    def __init__(self) -> None:
        self.units: list[list[tuple[str, str]]] = []
        self.root: str | None = None
        self._variants: list[tuple[str, str]] = []
        self._language = ""
        self._text: list[str] | None = None
        self._size = 0
        self._codes = 0

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        """An element begins."""
        self.root = self.root or tag
        if tag == "tu":
            self._variants = []
        elif tag == "tuv":
            self._language = attributes.get(_XML_LANGUAGE) or attributes.get("lang") or ""
        elif tag == "seg":
            self._text, self._size, self._codes = [], 0, 0
        elif tag in _CODES:
            self._codes += 1

    def data(self, text: str) -> None:
        """Text of the element at hand."""
        if self._text is not None and not self._codes and self._size < _MOST_CHARACTERS:
            self._text.append(text)
            self._size += len(text)

    def end(self, tag: str) -> None:
        """An element ends."""
        if tag == "seg" and self._text is not None:
            self._variants.append((self._language, " ".join("".join(self._text).split())))
            self._text = None
        elif tag == "tu":
            self.units.append(self._variants)
        elif tag in _CODES:
            self._codes -= 1

    def close(self) -> None:
        """The document ends."""


class _Parser(Protocol):
    def feed(self, data: bytes) -> None: ...

    def close(self) -> object: ...


def memory_fields(blocks: Iterable[bytes], name: str, languages: tuple[str, str] | None) -> Iterator[Fields]:
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


def _units(blocks: Iterable[bytes], name: str) -> Iterator[list[tuple[str, str]]]:
    reader = _Reader()
    parser = cast("_Parser", DefusedXMLParser(target=reader, forbid_dtd=False, forbid_entities=True))
    with xml_errors_named(name):
        for block in blocks:
            parser.feed(block)
            if reader.root not in (None, "tmx"):
                raise InputError(f"{name}: is no TMX: its outermost element is <{reader.root}>, not <tmx>")
            yield from reader.units
            reader.units.clear()
        parser.close()
        yield from reader.units


def _chunks(units: Iterator[list[tuple[str, str]]]) -> Iterator[list[list[tuple[str, str]]]]:
    chunk = []
    for unit in units:
        chunk.append(unit)
        if len(chunk) == LINES_A_CHUNK:
            yield chunk
            chunk = []
    if chunk:
        yield chunk


def _languages_of(unit: list[tuple[str, str]], name: str) -> tuple[str, str]:
    found = list(dict.fromkeys(language for language, _ in unit))
    if len(found) != 2:
        raise InputError(
            f"{name}: the first unit has {len(found)} languages ({', '.join(found)}): say which two with --languages"
        )
    return found[0], found[1]


def _as_fields(units: list[list[tuple[str, str]]], first: int, languages: tuple[str, str]) -> Fields:
    numbers: list[int] = []
    rejected: list[RejectedLine] = []
    sources: list[bytes] = []
    targets: list[bytes] = []
    for number, unit in enumerate(units, first):
        texts = [_text_in(unit, language) for language in languages]
        missing = [language for language, text in zip(languages, texts, strict=True) if text is None]
        if missing:
            rejection = RejectionError(MISSING_FIELD, f"the unit has no text in {' and '.join(missing)}")
            rejected.append(reject(number, rejection, " ||| ".join(f"{code}: {text}" for code, text in unit).encode()))
            continue
        numbers.append(number)
        sources.append((texts[0] or "").encode())
        targets.append((texts[1] or "").encode())
    return Fields(numbers, sources, targets, [None] * len(numbers), [None] * len(numbers), rejected=rejected)


def _text_in(unit: list[tuple[str, str]], language: str) -> str | None:
    """The unit's first text in the language; a region that was not asked for does not matter."""
    wanted = language.lower()
    for code, text in unit:
        found = code.lower()
        if found == wanted or found.startswith((f"{wanted}-", f"{wanted}_")):
            return text
    return None
