"""Bounds on what is taken in: what compressed data may unpack to, and how much of an input may be rejected."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated

from hierogram.daemon.exceptions import InputError, TooManyRejectedError
from hierogram.storage.options import Option

_ALWAYS_UNPACKED = 16 << 20
"""So many bytes may unpack from however little."""
_ALWAYS_REJECTED = 100
"""So many lines may be rejected, however few there are."""


@dataclass(frozen=True, slots=True)
class Limits:
    """How much of an input is taken before it is set apart as a whole."""

    max_unpacked_bytes: Annotated[
        int, Option("Most bytes that a compressed input may unpack to.", least=1, metavar="BYTES")
    ] = 1 << 36
    max_unpacked_ratio: Annotated[
        float,
        Option("Most bytes that a byte of compressed input may unpack to; the first 16 MiB always may.", least=1),
    ] = 200.0
    max_rejected_lines: Annotated[
        int, Option("Most lines that may be rejected before an input is set apart as a whole.", least=0)
    ] = 1_000_000
    max_rejected_share: Annotated[
        float,
        Option(
            "Largest share of its lines that may be rejected, or of those so far; the first 100 always may.",
            least=0,
            most=1,
        ),
    ] = 0.5

    def check_unpacked(self, name: str, packed: int, unpacked: int) -> None:
        """Raises `InputError` where so many compressed bytes may not unpack to so many."""
        advice = "if it is what it should be, unpack it first, or take more with"
        if unpacked > self.max_unpacked_bytes:
            raise InputError(
                f"{name}: unpacks to more than {self.max_unpacked_bytes:,} bytes: {advice} "
                f"{_names('max_unpacked_bytes')}"
            )
        if unpacked > _ALWAYS_UNPACKED and unpacked > self.max_unpacked_ratio * packed:
            raise InputError(
                f"{name}: {packed:,} bytes unpack to more than {unpacked:,}, over {self.max_unpacked_ratio:g} times "
                f"as many: {advice} {_names('max_unpacked_ratio')}"
            )

    def check_rejected(self, name: str, lines: int, reasons: Mapping[str, int]) -> None:
        """Raises `TooManyRejectedError` where so many of so many lines may not be rejected, by their reasons."""
        rejected = sum(reasons.values())
        if rejected > self.max_rejected_lines:
            bound = f"over {self.max_rejected_lines:,}: take more with {_names('max_rejected_lines')}"
        elif rejected > _ALWAYS_REJECTED and rejected > self.max_rejected_share * lines:
            bound = f"over {self.max_rejected_share:.0%}: take more with {_names('max_rejected_share')}"
        else:
            return
        by_number = sorted(reasons.items(), key=lambda item: (-item[1], item[0]))
        told = ", ".join(f"{reason} {number:,}" for reason, number in by_number)
        raise TooManyRejectedError(
            f"{name}: set apart as a whole, because {rejected:,} of {lines:,} lines cannot be stored ({told}), {bound}"
        )


def _names(option: str) -> str:
    return f"--{option.replace('_', '-')} (of a daemon: {option})"


DEFAULT_LIMITS = Limits()
