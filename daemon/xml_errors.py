"""What is said where XML that comes in cannot be read."""

from collections.abc import Iterator
from contextlib import contextmanager

from defusedxml.common import DefusedXmlException
from defusedxml.ElementTree import ParseError

from hierogram.daemon.exceptions import InputError


@contextmanager
def xml_errors_named(name: str) -> Iterator[None]:
    """Raises `InputError`, with the name of the input, where its XML is damaged or declares entities."""
    try:
        yield
    except DefusedXmlException as error:
        raise InputError(
            f"{name}: declares entities, which can make a small file a huge one, and is refused ({error}): "
            "write out what they stand for"
        ) from error
    except ParseError as error:
        raise InputError(f"{name}: is no well-formed XML: {error}: the file is damaged or incomplete") from error
