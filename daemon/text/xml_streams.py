"""Parser for untrusted XML in linear time and bounded memory. Nothing is downloaded or expanded.

A document is a sequence of units, such as the `<tu>` elements of TMX, which a `UnitReader` collects.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Generic, NoReturn, TypeVar

from defusedxml.common import DefusedXmlException
from defusedxml.ElementTree import DefusedXMLParser, ParseError

from hierogram.daemon.exceptions import InputError
from hierogram.daemon.text.lines import split_blocks

Unit = TypeVar("Unit")
LanguageText = TypeVar("LanguageText", bound=tuple[Any, ...])

LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"
"""Name of the attribute `xml:lang`."""
MAX_TOKEN_BYTES = 1 << 20
"""Approximate maximum size of a tag, comment or declaration, which expat rescans with every block."""
MAX_UNIT_BYTES = 1 << 24
"""Maximum number of bytes from the end of a unit to the end of the next unit."""
_MAX_DEPTH = 256
_MAX_NAMES = 2_000
_MAX_NAME_LENGTH = 1_000
_BLOCK_BYTES = 1 << 16


class UnitReader(Generic[Unit]):
    """Base of parser targets, which append each complete unit, such as a `<tu>`, to `units`.

    Subclasses override `start`, `data` and `end`, and call the overridden method first. `name` and `kind` are the file
    and its format in messages. `roots` are the allowed root elements. `events` counts all calls.
    """

    def __init__(self, name: str, kind: str, *roots: str) -> None:
        self.name = name
        self.kind = kind
        self.roots = roots
        self.units: list[Unit] = []
        self.root: str | None = None
        self.events = 0
        self._depth = 0
        self._names: set[str] = set()

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        """Count the start of an element. Raises `InputError` if a limit is exceeded."""
        self.events += 1
        self.root = self.root or tag
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            self.refuse(f"elements are nested more than {_MAX_DEPTH} levels deep")
        if tag not in self._names or not self._names.issuperset(attributes):
            self._names |= {tag, *attributes}
            if len(self._names) > _MAX_NAMES:
                self.refuse(f"more than {_MAX_NAMES:,} distinct names of elements and attributes")
            if max(map(len, self._names)) > _MAX_NAME_LENGTH:
                self.refuse(f"the name of an element or attribute has more than {_MAX_NAME_LENGTH:,} characters")

    def refuse(self, problem: str) -> NoReturn:
        """Raise `InputError` with advice to check the format."""
        raise InputError(f"{self.name}: {problem}: check that the file is {self.kind}")

    def data(self, _text: str) -> None:
        """Count text of the current element."""
        self.events += 1

    def end(self, _tag: str) -> None:
        """Count the end of an element."""
        self.events += 1
        self._depth -= 1

    def comment(self, *_: str | None) -> None:
        """Count a comment or a processing instruction, and ignore its content."""
        self.events += 1

    pi = comment


def read_units(blocks: Iterable[bytes], reader: UnitReader[Unit]) -> Iterator[Unit]:
    """Yield the units of a document in order. Raises `InputError` if invalid or beyond a limit."""
    name = reader.name
    parser: Any = DefusedXMLParser(target=reader, forbid_dtd=False, forbid_entities=True)
    bytes_without_events = unit_bytes = number = events = 0
    try:
        for block in split_blocks(blocks, _BLOCK_BYTES):
            parser.feed(block)
            if reader.root not in (None, *reader.roots):
                roots = "> or <".join(reader.roots)
                raise InputError(f"{name}: not {reader.kind}: expected the root element <{roots}>, got <{reader.root}>")
            bytes_without_events = bytes_without_events + len(block) if reader.events == events else 0
            events = reader.events
            if bytes_without_events >= MAX_TOKEN_BYTES:
                reader.refuse(f"a tag, comment or declaration has more than {MAX_TOKEN_BYTES:,} bytes")
            unit_bytes = 0 if reader.units else unit_bytes + len(block)
            number += len(reader.units)
            if unit_bytes > MAX_UNIT_BYTES:
                problem = f"unit {number + 1:,} has more than {MAX_UNIT_BYTES:,} bytes"
                raise InputError(f"{name}: {problem}: split or remove the unit")
            yield from reader.units
            reader.units.clear()
        parser.close()
        yield from reader.units
    except DefusedXmlException as error:
        problem = f"entity declarations are not allowed, because they can expand to huge texts ({error})"
        raise InputError(f"{name}: {problem}: replace the entities by their values") from error
    except ParseError as error:
        raise InputError(f"{name}: invalid XML: {error}: the file is damaged or incomplete") from error
    except (ValueError, LookupError) as error:
        raise InputError(f"{name}: unsupported encoding ({error}): convert the file to UTF-8") from error


def matches_language(code: str, language: str) -> bool:
    """Check if a code matches a language. Regions are ignored if `language` has none."""
    code_found, code_wanted = code.lower().replace("_", "-"), language.lower().replace("_", "-")
    return code_found == code_wanted or code_found.startswith(f"{code_wanted}-")


def split_by_language(
    texts: Iterable[LanguageText], languages: tuple[str, str]
) -> tuple[list[LanguageText], list[LanguageText]]:
    """Return the texts of the source and of the target language. Each text begins with its language code.

    A text that matches both languages belongs to the longer code: `pt-BR`, not `pt`. Other texts are omitted.
    """
    sides: tuple[list[LanguageText], list[LanguageText]] = [], []
    for text in texts:
        matching = [side for side, language in enumerate(languages) if matches_language(text[0], language)]
        if matching:
            sides[max(matching, key=lambda side: len(languages[side]))].append(text)
    return sides


def unit_languages(codes: Iterable[str], name: str, unit: str) -> tuple[str, str]:
    """Return the languages of a file's first unit, in order. Raises `InputError` unless there are two."""
    distinct = list(dict.fromkeys(codes))
    if len(distinct) != 2:
        counted = f"got {len(distinct)} ({', '.join(distinct[:10])})"
        raise InputError(f"{name}: expected two languages in the first {unit}, {counted}: choose two with --languages")
    return distinct[0], distinct[1]
