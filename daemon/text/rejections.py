"""Reasons for rejected lines (stable codes), and limits beyond which ingest stops."""

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
"""Maximum length of a line in bytes. Longer lines are rejected, and cut after one more byte to save memory."""

_SHOWN_BYTES = 40


class RejectionError(DaemonError):
    """Line or tree that cannot be stored. `reason` is a code of this module, `message` is a sentence."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason
        self.message = message


def quote_bytes(text: bytes) -> str:
    """Quote input bytes in a message: printable, on one line, truncated."""
    cut = text[:_SHOWN_BYTES].decode("utf-8", "backslashreplace")
    return repr(cut) + ("…" if len(text) > _SHOWN_BYTES else "")


_MIN_UNPACKED = 16 << 20
"""Decompressed size in bytes up to which `max_unpacked_ratio` is not checked."""
_MIN_REJECTED = 100
"""Number of rejected lines up to which `max_rejected_share` is not checked."""


@dataclass(frozen=True, slots=True)
class InputLimits(Options):
    """Limits beyond which ingest stops with an error. Lines stored before the error are kept."""

    max_unpacked_bytes: Annotated[
        int, Option("Maximum decompressed size of a file, in bytes.", min=1, metavar="BYTES")
    ] = 1 << 36
    max_unpacked_ratio: Annotated[
        float,
        Option(
            "Maximum ratio of the decompressed to the compressed size of a file. Not checked up to 16 MiB of "
            "decompressed data.",
            min=1,
        ),
    ] = 200.0
    max_rejected_lines: Annotated[
        int, Option("Number of rejected lines of an input beyond which ingest stops.", min=0)
    ] = 1_000_000
    max_rejected_share: Annotated[
        float,
        Option(
            "Share of rejected lines of an input (so far) beyond which ingest stops. Not checked up to 100 rejected "
            "lines.",
            min=0,
            max=1,
        ),
    ] = 0.5

    def check_unpacked(self, name: str, packed: int, unpacked: int) -> None:
        """Raise `InputError` if the decompressed size of a file, or the compression ratio, exceeds a limit."""
        advice = "if the file is correct, decompress it first, or in a daemon raise"
        if unpacked > self.max_unpacked_bytes:
            problem = f"the decompressed size exceeds {self.max_unpacked_bytes:,} bytes"
            raise InputError(f"{name}: {problem}: {advice} max_unpacked_bytes in [intake]")
        if unpacked > _MIN_UNPACKED and unpacked > self.max_unpacked_ratio * packed:
            ratio = f"a ratio above {self.max_unpacked_ratio:g}"
            problem = f"{packed:,} bytes decompress to more than {unpacked:,}, {ratio}"
            raise InputError(f"{name}: {problem}: {advice} max_unpacked_ratio in [intake]")

    def check_rejected(self, name: str, lines: int, reasons: Mapping[str, int]) -> None:
        """Raise `TooManyRejectedError` if the rejections, counted by reason, exceed a limit."""
        rejected = sum(reasons.values())
        if rejected > self.max_rejected_lines:
            bound = f"{self.max_rejected_lines:,} (in a daemon: max_rejected_lines in [intake])"
        elif rejected > _MIN_REJECTED and rejected > self.max_rejected_share * lines:
            bound = f"{self.max_rejected_share:.0%} (in a daemon: max_rejected_share in [intake])"
        else:
            return
        by_number = sorted(reasons.items(), key=lambda item: (-item[1], item[0]))
        counts = ", ".join(f"{reason} {number:,}" for reason, number in by_number)
        problem = f"{rejected:,} of the first {lines:,} lines cannot be stored ({counts}), the limit is {bound}"
        raise TooManyRejectedError(f"{name}: ingest stopped: {problem}: correct the lines, and ingest the input again")


DEFAULT_LIMITS = InputLimits()
