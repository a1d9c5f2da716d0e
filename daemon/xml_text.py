"""Text in XML documents, without the characters that XML 1.0 does not have."""

import re
from xml.sax.saxutils import escape, quoteattr

_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Control characters, surrogates, U+FFFE and U+FFFF, which cannot be written as references either."""


def xml_characters(text: str) -> str:
    """Return the text without the characters that XML does not have."""
    return _NOT_IN_XML.sub("", text)


def xml_text(text: str) -> str:
    """Return the text as the content of an element."""
    return escape(xml_characters(text))


def xml_attribute(text: str) -> str:
    """Return the text as the value of an attribute, with quotation marks around it."""
    return quoteattr(xml_characters(text))
