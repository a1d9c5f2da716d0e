"""Escaping of text for XML documents. Characters that XML 1.0 does not allow are removed."""

import re
from xml.sax.saxutils import escape, quoteattr

_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that XML excludes even as references: most controls, surrogates, U+FFFE and U+FFFF."""

UNKNOWN_LANGUAGES = ("x-source", "x-target")
"""Private-use language tags [BCP 47] for a store that does not name its languages."""


def xml_text(text: str) -> str:
    """Return the text escaped as the content of an element."""
    return escape(_NOT_IN_XML.sub("", text))


def xml_attribute(text: str) -> str:
    """Return the text quoted and escaped as the value of an attribute."""
    return quoteattr(_NOT_IN_XML.sub("", text))
