"""XML that strangers give, as a stream of events: in bounded memory, without entities, in time that is linear.

Nothing is fetched and nothing is expanded. What the parser would have to keep is bounded before it is given to it: a
tag or comment (of which expat looks at all it has again with every block), how deep elements lie in each other, how
many names they have, and how much one unit (a `<tu>`, a concept) holds.
"""

from collections.abc import Iterable, Iterator
from typing import Any, Generic, TypeVar

from defusedxml.common import DefusedXmlException
from defusedxml.ElementTree import DefusedXMLParser, ParseError

from hierogram.daemon.exceptions import InputError
from hierogram.daemon.text.lines import pieces

Unit = TypeVar("Unit")

LANGUAGE = "{http://www.w3.org/XML/1998/namespace}lang"
MOST_TOKEN_BYTES = 1 << 20
"""A tag with its attributes, a comment or a declaration has at most about so many."""
MOST_UNIT_BYTES = 1 << 24
"""From the end of a unit to the end of the next one, there are at most so many."""
_DEEPEST = 256
_MOST_NAMES = 2_000
_LONGEST_NAME = 1_000
_BLOCK = 1 << 16


class UnitReader(Generic[Unit]):
    """Hears what the parser finds, and keeps whole units until they are fetched.

    Documents are of a `kind`, with one of `roots` as their outermost element. Raises `InputError` where one goes beyond
    a bound.
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
        """Hear that an element begins."""
        self.events += 1
        self.root = self.root or tag
        self._depth += 1
        if self._depth > _DEEPEST:
            raise InputError(f"{self.name}: has elements in more than {_DEEPEST} others: it is damaged")
        if tag not in self._names or not self._names.issuperset(attributes):
            self._names |= {tag, *attributes}
            if len(self._names) > _MOST_NAMES or max(map(len, self._names)) > _LONGEST_NAME:
                raise InputError(
                    f"{self.name}: has over {_MOST_NAMES:,} names of elements and attributes, or one of over "
                    f"{_LONGEST_NAME:,} characters: it is damaged"
                )

    def data(self, _text: str) -> None:
        """Hear text of the element at hand."""
        self.events += 1

    def end(self, _tag: str) -> None:
        """Hear that an element ends."""
        self.events += 1
        self._depth -= 1

    def comment(self, *_: str | None) -> None:
        """Hear a comment, or an instruction, which says nothing."""
        self.events += 1

    pi = comment

    def close(self) -> None:
        """Hear that the document ends."""


def units(blocks: Iterable[bytes], reader: UnitReader[Unit]) -> Iterator[Unit]:
    """Yield the units that the reader finds in the blocks, in their order.

    Raises `InputError` where the XML is of another kind, is damaged, declares entities, or goes beyond a bound.
    """
    name = reader.name
    parser: Any = DefusedXMLParser(target=reader, forbid_dtd=False, forbid_entities=True)
    silent = since_unit = number = events = 0
    try:
        for block in pieces(blocks, _BLOCK):
            parser.feed(block)
            if reader.root not in (None, *reader.roots):
                known = "> or <".join(reader.roots)
                raise InputError(
                    f"{name}: is no {reader.kind}: its outermost element is <{reader.root}>, not <{known}>"
                )
            silent = silent + len(block) if reader.events == events else 0
            events = reader.events
            if silent >= MOST_TOKEN_BYTES:
                raise InputError(
                    f"{name}: a tag, comment or declaration has more than {MOST_TOKEN_BYTES:,} bytes: it is damaged"
                )
            since_unit = 0 if reader.units else since_unit + len(block)
            number += len(reader.units)
            if since_unit > MOST_UNIT_BYTES:
                raise InputError(f"{name}: unit {number + 1:,} has more than {MOST_UNIT_BYTES:,} bytes: it is damaged")
            yield from reader.units
            reader.units.clear()
        parser.close()
        yield from reader.units
        reader.units.clear()
    except DefusedXmlException as error:
        raise InputError(
            f"{name}: declares entities, which can make a small file a huge one, and is refused ({error}): "
            "write out what they stand for"
        ) from error
    except ParseError as error:
        raise InputError(f"{name}: is no well-formed XML: {error}: the file is damaged or incomplete") from error
    except (ValueError, LookupError) as error:
        raise InputError(f"{name}: is in an encoding that cannot be read ({error}): convert it to UTF-8") from error


def is_of(code: str, language: str) -> bool:
    """Return whether a text's language is the one asked for; a region that was not asked for does not matter."""
    found, wanted = code.lower().replace("_", "-"), language.lower().replace("_", "-")
    return found == wanted or found.startswith(f"{wanted}-")


def languages_of(codes: Iterable[str], name: str, unit: str) -> tuple[str, str]:
    """Return the two languages of a file's first unit, in its order; raises `InputError` where it has others."""
    found = list(dict.fromkeys(codes))
    if len(found) != 2:
        raise InputError(
            f"{name}: the first {unit} has {len(found)} languages ({', '.join(found[:10])}): say which two with "
            "--languages"
        )
    return found[0], found[1]
