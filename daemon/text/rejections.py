"""Reasons for rejected lines. They are stored and shown to clients, so the codes must not change."""

from hierogram.daemon.exceptions import DaemonError

DEPRECATED_TERM = "deprecated-term"
DIFFERENT_WORDS = "different-words"
EMPTY_LINE = "empty-line"
EMPTY_SIDE = "empty-side"
FIELD_COUNT = "field-count"
FOREST_OPTION = "forest-option"
INVALID_UTF8 = "invalid-utf8"
LENGTH_MISMATCH = "length-mismatch"
LINE_BREAK = "line-break"
LINE_TOO_LONG = "line-too-long"
LINK_OUT_OF_RANGE = "link-out-of-range"
MALFORMED_JSON = "malformed-json"
MALFORMED_LINK = "malformed-link"
MALFORMED_TREE = "malformed-tree"
MISSING_FIELD = "missing-field"
NUL_BYTE = "nul-byte"
TOO_LONG = "too-long"
WRONG_TYPE = "wrong-type"

MAX_LINE_BYTES = 1 << 20
"""Maximum length of a line in bytes. Longer lines are rejected, and cut before that to save memory."""

_SHOWN_BYTES = 40


class RejectionError(DaemonError):
    """Line or tree that cannot be stored. `reason` is a code of this module, `message` a sentence."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


def quote_bytes(text: bytes) -> str:
    """Quote input bytes in a message: printable, on one line, truncated."""
    cut = text[:_SHOWN_BYTES].decode("utf-8", "backslashreplace")
    return repr(cut) + ("…" if len(text) > _SHOWN_BYTES else "")
