"""Text for XML documents, without characters outside XML 1.0."""

import re
from xml.sax.saxutils import escape, quoteattr

_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Control characters, surrogates, U+FFFE and U+FFFF, which XML cannot express even as references."""


def xml_characters(text: str) -> str:
    """Return the text without characters outside XML 1.0."""
    return _NOT_IN_XML.sub("", text)


def xml_text(text: str) -> str:
    """Return the text escaped as the content of an element."""
    return escape(xml_characters(text))


def xml_attribute(text: str) -> str:
    """Return the text quoted and escaped as the value of an attribute."""
    return quoteattr(xml_characters(text))
