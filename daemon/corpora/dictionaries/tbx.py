"""Terms of a TBX file [ISO 30042], in any of its dialects: which terms a concept has, by language.

Older files are `martif` with `termEntry`, `langSet` and `tig` or `ntig`, newer ones `tbx` with `conceptEntry`,
`langSec` and `termSec`. The file is streamed: one concept is in memory at a time. A file that declares entities is
refused; the document type that old files name is not fetched.
"""

from collections.abc import Iterable, Iterator

from hierogram.daemon import xml_streams
from hierogram.daemon.exceptions import InputError

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

    return xml_streams.units(blocks, name, _Reader(), check_root)


def _local(tag: str) -> str:
    return tag.rpartition("}")[2]
