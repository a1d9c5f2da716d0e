"""Why a line of an input is not stored: codes that stay the same, and the exception that carries one."""

from hierogram.daemon.exceptions import DaemonError

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

_SHOWN_BYTES = 40


class RejectionError(DaemonError):
    """A line cannot become a sentence pair: `reason` is one of this module's codes, `message` a sentence."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


def shown(text: bytes) -> str:
    """Bytes from an input as a message quotes them: readable, on one line, cut to a bound."""
    cut = text[:_SHOWN_BYTES].decode("utf-8", "backslashreplace")
    return repr(cut) + ("…" if len(text) > _SHOWN_BYTES else "")
