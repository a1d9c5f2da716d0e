"""Terms of a TBX file [ISO 30042], in any of its dialects: which terms a concept has, by language.

Older files are `martif` with `termEntry`, `langSet` and `tig` or `ntig`, newer ones `tbx` with `conceptEntry`,
`langSec` and `termSec`. The file is streamed: one concept is in memory at a time. A file that declares entities is
refused; the document type that old files name is not fetched.
"""

from collections.abc import Iterable, Iterator
from typing import Protocol, cast

from defusedxml.ElementTree import DefusedXMLParser

from hierogram.daemon.exceptions import InputError
from hierogram.daemon.xml_errors import xml_errors_named

Concept = list[tuple[str, str]]
"""Language and term, in the order of the file."""

_XML_LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"
_ROOTS = frozenset({"martif", "tbx"})
_CONCEPTS = frozenset({"termEntry", "conceptEntry"})
_LANGUAGES = frozenset({"langSet", "langSec"})
_MOST_CHARACTERS = 1 << 16
"""A term is cut behind so many characters, which no store takes as one."""


class _Reader:
    """Hears what the parser finds, and keeps whole concepts until they are fetched."""

    def __init__(self) -> None:
        self.concepts: list[Concept] = []
        self.root: str | None = None
        self._concept: Concept = []
        self._language = ""
        self._text: list[str] | None = None
        self._size = 0

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        """An element begins."""
        name = _local(tag)
        self.root = self.root or name
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
            self.concepts.append(self._concept)
            self._concept = []

    def close(self) -> None:
        """The document ends."""


class _Parser(Protocol):
    def feed(self, data: bytes) -> None: ...

    def close(self) -> object: ...


def concepts(blocks: Iterable[bytes], name: str) -> Iterator[Concept]:
    """The concepts of a file, in its order.

    Raises `InputError` where it is no TBX, is damaged, or declares entities.
    """
    reader = _Reader()
    parser = cast("_Parser", DefusedXMLParser(target=reader, forbid_dtd=False, forbid_entities=True))
    with xml_errors_named(name):
        for block in blocks:
            parser.feed(block)
            if reader.root is not None and reader.root not in _ROOTS:
                raise InputError(f"{name}: is no TBX: its outermost element is <{reader.root}>, not <tbx> or <martif>")
            yield from reader.concepts
            reader.concepts.clear()
        parser.close()
        yield from reader.concepts


def _local(tag: str) -> str:
    return tag.rpartition("}")[2]
