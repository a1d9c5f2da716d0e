"""Reasons for rejected lines (stable codes), and limits beyond which an input is rejected as a whole."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from hierogram.daemon.exceptions import DaemonError, InputError, TooManyRejectedError
from hierogram.storage.options import Option, Options

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
"""Maximum length of a line. Longer lines are rejected, and cut after one more byte to save memory."""

_SHOWN_BYTES = 40


class RejectionError(DaemonError):
    """Line that cannot become a pair. `reason` is a code of this module, `message` is a sentence."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


def quote_bytes(text: bytes) -> str:
    """Return input bytes for a quote in a message: printable, on one line, truncated."""
    cut = text[:_SHOWN_BYTES].decode("utf-8", "backslashreplace")
    return repr(cut) + ("…" if len(text) > _SHOWN_BYTES else "")


_ALWAYS_UNPACKED = 16 << 20
"""Decompressed size in bytes that is always allowed."""
_ALWAYS_REJECTED = 100
"""Number of rejected lines that is always allowed."""


@dataclass(frozen=True, slots=True)
class InputLimits(Options):
    """Limits beyond which an input is rejected as a whole."""

    max_unpacked_bytes: Annotated[
        int, Option("Maximum size of a decompressed input, in bytes.", min=1, metavar="BYTES")
    ] = 1 << 36
    max_unpacked_ratio: Annotated[
        float,
        Option(
            "Maximum compression ratio of an input. The first 16 MiB are always accepted.",
            min=1,
        ),
    ] = 200.0
    max_rejected_lines: Annotated[
        int, Option("Number of rejected lines beyond which an input is rejected as a whole.", min=0)
    ] = 1_000_000
    max_rejected_share: Annotated[
        float,
        Option(
            "Share of rejected lines (so far) beyond which an input is rejected as a whole. The first 100 rejected "
            "lines do not count.",
            min=0,
            max=1,
        ),
    ] = 0.5

    def check_unpacked(self, name: str, packed: int, unpacked: int) -> None:
        """Raise `InputError` if the decompressed size of an input exceeds a limit."""
        advice = "if the file is correct, decompress it first, or raise"
        if unpacked > self.max_unpacked_bytes:
            raise InputError(
                f"{name}: the decompressed size exceeds {self.max_unpacked_bytes:,} bytes: {advice} "
                f"{_option_location('max_unpacked_bytes')}"
            )
        if unpacked > _ALWAYS_UNPACKED and unpacked > self.max_unpacked_ratio * packed:
            raise InputError(
                f"{name}: {packed:,} bytes decompress to more than {unpacked:,}, a ratio above "
                f"{self.max_unpacked_ratio:g}: {advice} {_option_location('max_unpacked_ratio')}"
            )

    def check_rejected(self, name: str, lines: int, reasons: Mapping[str, int]) -> None:
        """Raise `TooManyRejectedError` if the rejections, counted by reason, exceed a limit."""
        rejected = sum(reasons.values())
        if rejected > self.max_rejected_lines:
            bound = f"the limit is {self.max_rejected_lines:,} ({_option_location('max_rejected_lines')})"
        elif rejected > _ALWAYS_REJECTED and rejected > self.max_rejected_share * lines:
            bound = f"the limit is {self.max_rejected_share:.0%} ({_option_location('max_rejected_share')})"
        else:
            return
        by_number = sorted(reasons.items(), key=lambda item: (-item[1], item[0]))
        counts_by_reason = ", ".join(f"{reason} {number:,}" for reason, number in by_number)
        raise TooManyRejectedError(
            f"{name}: rejected as a whole, because {rejected:,} of {lines:,} lines cannot be stored "
            f"({counts_by_reason}); {bound}"
        )


def _option_location(option: str) -> str:
    return f"{option} in [intake] of the daemon's configuration"


DEFAULT_LIMITS = InputLimits()
