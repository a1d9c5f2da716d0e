"""Untranslatable spans: addresses, tags, placeholders, mentions. Each is copied as one token."""

import re
from typing import NamedTuple

from hierogram.daemon.text.detokenizer import NO_BREAK

_VALUE = r"(?:\"[^\"]{0,4000}\"|'[^']{0,4000}'|[^\s<>\"'=]+)"
# The bounds on repetitions keep matching linear in lines that consist of many tag openings.
TAG = re.compile(
    r"<(?P<close>/)?(?P<name>[A-Za-z][\w:.-]{0,60})"
    rf"(?:\s+[^\s<>\"'=/]{{1,100}}(?:\s*=\s*{_VALUE})?){{0,60}}\s*(?P<empty>/)?>"
)

_PLACEHOLDERS = (
    r"\{\{[^{}\n]{1,80}\}\}",
    r"[$%#]?\{[\w.,:;|!#$@ -]{0,80}\}",
    r"%\([\w. -]{1,80}\)[-+0#]*\d*(?:\.\d+)?[a-zA-Z]",
    r"(?<![\d%])%(?:\d+\$)?[-+0#]*(?:\d+|\*)?(?:\.(?:\d+|\*))?(?:hh|h|ll|l|q|j|z|t|L)?[diouxXeEfFgGcrsaA@](?![^\W\d_])",
    r"%%",
    r"\[\[[\w.:| -]{1,80}\]\]",
    r"&(?:[A-Za-z][A-Za-z0-9]{1,30}|#\d{1,7}|#[xX][0-9a-fA-F]{1,6});",
    r"\\[nrt](?![^\W_])",
)
_NOT_IN_ADDRESSES = r"\s<>\"'«»“”。，、！？；：）」』】"
_ADDRESSES = (
    rf"(?:(?:https?|ftp|file)://|www\.|mailto:)[^{_NOT_IN_ADDRESSES}]*[^{_NOT_IN_ADDRESSES}.,;:!?)\]}}…]",
    r"(?<![\w.+-])[\w.+-]+@[\w-]+(?:\.[\w-]+)+",
    r"(?<![\w@#])[@#][A-Za-z_]\w*",
)
_PROTECTED = re.compile("|".join((*_ADDRESSES, *(f"(?:{pattern})" for pattern in _PLACEHOLDERS))))
_PROTECTED_OR_TAG = re.compile(f"{TAG.pattern}|{_PROTECTED.pattern}")
_QUICK_TEST = re.compile(r"[<%{@#&\\]|\[\[|://|www\.|mailto:")
"""Fast test for text that may contain protected spans. Most text does not match."""
_BLANKS = re.compile(r"\s+")


class ProtectedSpan(NamedTuple):
    """Untranslatable span: its half-open range in a text, and its characters there (`written`)."""

    start: int
    end: int
    written: str

    @property
    def token(self) -> str:
        """Single token for the span, with no-break spaces instead of blanks."""
        return _BLANKS.sub(NO_BREAK, self.written)


def find_protected(text: str, tags: bool = True) -> list[ProtectedSpan]:
    """Return the untranslatable spans of a text, in order. Without `tags`, markup tags are ordinary text."""
    if not _QUICK_TEST.search(text):
        return []
    pattern = _PROTECTED_OR_TAG if tags else _PROTECTED
    return [ProtectedSpan(*match.span(), match.group()) for match in pattern.finditer(text)]
