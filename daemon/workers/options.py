"""Options of workers and blocks, without imports of Ray and numba, so that commands start quickly."""

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from hierogram.storage.options import Option, OptionError, Options

if TYPE_CHECKING:
    from hierogram.samplers.synchronous.sweeps import Blocks

_CLIENT = "ray://"
_BLOCKS = re.compile(r"([1-9]\d{0,5})x([1-9]\d{0,5})")


@dataclass(frozen=True, slots=True)
class WorkerOptions(Options):
    """Distribution of the pairs of a store over workers."""

    workers: Annotated[
        str | None,
        Option(
            "Ray workers that share the pairs. N: start N workers, on the cluster of RAY_ADDRESS if set, else on this "
            "machine. auto: start as many as fit, with --threads processors each, on the cluster of RAY_ADDRESS or a "
            "running cluster, else on this machine. ray://HOST:PORT: like auto, on that cluster.",
            metavar="WORKERS", shown="threads of this process",
        ),
    ] = None  # fmt: skip
    blocks: Annotated[
        str | None,
        Option(
            "Pairs per block and blocks per round, such as 32x64. The blocks of a round are sampled with the same "
            "counts, so the result depends on this option.",
            metavar="PAIRSxBLOCKS", shown="chosen by the number of pairs",
        ),
    ] = None  # fmt: skip

    def __post_init__(self) -> None:
        self.parsed()

    def parsed(self) -> "tuple[Workers | None, Blocks | None]":
        """Return the parsed options, None for an option that is not set. Raises `OptionError`."""
        workers = None if self.workers is None else _parse_workers(self.workers)
        return workers, None if self.blocks is None else parse_blocks(self.blocks)


@dataclass(frozen=True, slots=True)
class Workers:
    """Number of workers (None for as many as fit), and address of the cluster (None if not given)."""

    number: int | None = None
    address: str | None = None


def _parse_workers(text: str) -> Workers:
    if text == "auto":
        return Workers()
    if text.startswith(_CLIENT) and len(text) > len(_CLIENT):
        return Workers(address=text)
    if text.isascii() and text.isdigit() and int(text) >= 1:
        return Workers(int(text))
    raise OptionError("workers", f"expected auto, a positive number or ray://HOST:PORT, got {text!r}")


def parse_blocks(text: str) -> "Blocks":
    """Parse `32x64` into 32 pairs per block and 64 blocks per round. Raises `OptionError`."""
    match = _BLOCKS.fullmatch(text)
    if match is None:
        raise OptionError("blocks", f"expected PAIRSxBLOCKS, such as 32x64, got {text!r}")
    from hierogram.samplers.synchronous.sweeps import Blocks

    return Blocks(int(match[1]), int(match[2]))
