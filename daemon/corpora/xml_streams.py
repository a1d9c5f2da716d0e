"""XML that strangers give, as a stream of events: in bounded memory, without entities, in time that is linear.

Nothing is fetched and nothing is expanded. What the parser would have to keep is bounded before it is given to it: a
tag or comment (of which expat looks at all it has again with every block), how deep elements lie in each other, how
many names they have, and how much one unit (a `<tu>`, a concept) holds.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Generic, Protocol, TypeVar, cast

from defusedxml.common import DefusedXmlException
from defusedxml.ElementTree import DefusedXMLParser, ParseError

from hierogram.daemon.exceptions import InputError

Unit = TypeVar("Unit")

MOST_TOKEN_BYTES = 1 << 20
"""A tag with its attributes, a comment or a declaration has at most about so many."""
MOST_UNIT_BYTES = 1 << 24
"""From the end of a unit to the end of the next one, there are at most so many."""
_DEEPEST = 256
_MOST_NAMES = 2_000
_LONGEST_NAME = 1_000
_BLOCK = 1 << 16


class Reader(Protocol[Unit]):
    """Hears what the parser finds, and keeps whole units until they are fetched."""

    units: list[Unit]

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        """An element begins."""

    def data(self, text: str) -> None:
        """Text of the element at hand."""

    def end(self, tag: str) -> None:
        """An element ends."""


class _Parser(Protocol):
    def feed(self, data: bytes) -> None: ...

    def close(self) -> object: ...


class _Bounded(Generic[Unit]):
    """Stands between the parser and a reader; raises `InputError` where a document goes beyond a bound."""

    def __init__(self, reader: Reader[Unit], name: str) -> None:
        self._name = name
        self._reader = reader
        self._depth = 0
        self._names: set[str] = set()
        self.root: str | None = None
        self.events = 0

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        self.events += 1
        self.root = self.root or tag
        self._depth += 1
        if self._depth > _DEEPEST:
            raise InputError(f"{self._name}: has elements in more than {_DEEPEST} others: it is damaged")
        if tag not in self._names or not self._names.issuperset(attributes):
            self._names |= {tag, *attributes}
            if len(self._names) > _MOST_NAMES or max(map(len, self._names)) > _LONGEST_NAME:
                raise InputError(
                    f"{self._name}: has over {_MOST_NAMES:,} names of elements and attributes, or one of over "
                    f"{_LONGEST_NAME:,} characters: it is damaged"
                )
        self._reader.start(tag, attributes)

    def data(self, text: str) -> None:
        self.events += 1
        self._reader.data(text)

    def end(self, tag: str) -> None:
        self.events += 1
        self._depth -= 1
        self._reader.end(tag)

    def comment(self, _text: str) -> None:
        self.events += 1

    def pi(self, _target: str, _data: str | None = None) -> None:
        self.events += 1

    def close(self) -> None:
        pass


def units(
    blocks: Iterable[bytes], name: str, reader: Reader[Unit], check_root: Callable[[str], None]
) -> Iterator[Unit]:
    """The units that the reader finds in the blocks, in their order; `check_root` raises for another kind of document.

    Raises `InputError` where the XML is damaged, declares entities, or goes beyond a bound.
    """
    bounded = _Bounded(reader, name)
    parser = cast("_Parser", DefusedXMLParser(target=bounded, forbid_dtd=False, forbid_entities=True))
    silent = since_unit = number = events = 0
    with _errors_named(name):
        for block in _pieces(blocks):
            parser.feed(block)
            if bounded.root is not None:
                check_root(bounded.root)
            silent = silent + len(block) if bounded.events == events else 0
            events = bounded.events
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


def _pieces(blocks: Iterable[bytes]) -> Iterator[bytes]:
    for block in blocks:
        for start in range(0, len(block), _BLOCK):
            yield block[start : start + _BLOCK]


@contextmanager
def _errors_named(name: str) -> Iterator[None]:
    try:
        yield
    except DefusedXmlException as error:
        raise InputError(
            f"{name}: declares entities, which can make a small file a huge one, and is refused ({error}): "
            "write out what they stand for"
        ) from error
    except ParseError as error:
        raise InputError(f"{name}: is no well-formed XML: {error}: the file is damaged or incomplete") from error
    except (ValueError, LookupError) as error:
        raise InputError(f"{name}: is in an encoding that cannot be read ({error}): convert it to UTF-8") from error
