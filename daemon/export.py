"""Export: the grammar of one snapshot as a compressed text file that decoders read, with a manifest beside it."""

import hashlib
import json
import os
import re
import secrets
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import BinaryIO

import zstandard

from hierogram.daemon.exceptions import ExportError
from hierogram.storage.exceptions import StoreError
from hierogram.storage.records import RuleRow
from hierogram.storage.store import Store

FORMAT = "text+zstd"
MANIFEST_VERSION = 1
MANIFEST_SUFFIX = ".json"

_LEVEL = 9
_LINES_A_WRITE = 4_096
# Words in brackets are nonterminals to cdec, whatever the word; ours are written [X,1], [X,2], ...
_MISTAKABLE = re.compile(r"\|\|\|\Z|\[(?!X,[1-9][0-9]*\]\Z).*\]\Z", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Filters:
    """Which rules an export holds.

    `max_scope` leaves out rules that parse slower than O(n^max_scope), `hiero` those against the constraints of
    Chiang (2007), `min_count` the rarer ones. With `sampled` the counts are those over all kept samples, for the
    filter and the probabilities; the count on a line is then the average over the samples of a pair.
    """

    max_scope: int = 2
    hiero: bool = False
    min_count: int = 1
    sampled: bool = False


@dataclass(frozen=True, slots=True)
class Manifest:
    """What an exported file is: where it comes from, what was left out, and how to tell that it is whole.

    `bytes` and `sha256` are those of the compressed file; `position` is the store position that it shows.
    """

    manifest_version: int
    hierogram: str
    format: str
    file: str
    store: str
    position: int
    settings: dict[str, str | int | float]
    filters: dict[str, int | bool]
    rules: int
    bytes: int
    sha256: str
    created_at: str


def rule_line(rule: RuleRow, count: float) -> str:
    """`[X] ||| source ||| target ||| p(e|f)=… p(f|e)=… count=…`, for decoders that read cdec's grammars.

    A terminal that such a decoder would take for a nonterminal or a bar has a backslash before it.
    """
    return (
        f"[X] ||| {_side(rule.source)} ||| {_side(rule.target)} ||| p(e|f)={_number(rule.p_target_given_source)} "
        f"p(f|e)={_number(rule.p_source_given_target)} count={_number(count)}\n"
    )


def _side(text: str) -> str:
    if "|||" not in text and "]" not in text:
        return text
    return " ".join("\\" + symbol if _MISTAKABLE.match(symbol) else symbol for symbol in text.split(" "))


def _number(value: float) -> str:
    """Whole numbers exactly, others to six digits; an exponent comes after a decimal point, as cdec wants it."""
    text = str(value) if isinstance(value, int) else f"{value:.6g}"
    return f"{value:.5e}" if "e" in text else text


class _Compressed:
    """Compresses what is written to it into a file; counts and hashes the bytes that arrive there."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self._compressor = zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True).compressobj()
        self.digest = hashlib.sha256()
        self.bytes = 0

    def write(self, text: str) -> None:
        self._put(self._compressor.compress(text.encode()))

    def finish(self) -> None:
        self._put(self._compressor.flush())

    def _put(self, data: bytes) -> None:
        self._file.write(data)
        self.digest.update(data)
        self.bytes += len(data)


@contextmanager
def appearing(path: Path) -> Iterator[BinaryIO]:
    """A file to write that appears under its name, on the disk, only when all went well, and else not at all."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
    try:
        with temporary.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        _sync_folder(path.parent)
    except BaseException:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def manifest_path(path: Path) -> Path:
    """Where the manifest of an exported file lies: beside it, under its name and `.json`."""
    return path.with_name(path.name + MANIFEST_SUFFIX)


def export(
    store: Store, path: Path, filters: Filters | None = None, report: Callable[[int], None] | None = None
) -> Manifest:
    """Write the store's grammar to `path`, and its manifest beside it; `report` hears the rules written so far.

    The same grammar under the same filters gives the same bytes. Raises `ExportError` where the file cannot be written.
    """
    filters = filters or Filters()
    path = path.absolute()
    if not path.parent.is_dir():
        raise ExportError(f"{path}: the folder {path.parent} does not exist: make it first")
    export_id = store.record_export(path.name, str(path), FORMAT)
    try:
        manifest = _write(store, path, filters, report)
        text = json.dumps(asdict(manifest), indent=2, ensure_ascii=False) + "\n"
        with appearing(manifest_path(path)) as file:
            file.write(text.encode())
    except BaseException as error:
        with suppress(StoreError):
            store.finish_export(export_id, error=str(error) or type(error).__name__)
        if isinstance(error, OSError):
            raise ExportError(f"{path}: cannot be written: {error.strerror or error}") from error
        raise
    store.finish_export(
        export_id,
        rules=manifest.rules,
        bytes=manifest.bytes,
        sha256=manifest.sha256,
        position=manifest.position,
        manifest=text,
    )
    return manifest


def _write(store: Store, path: Path, filters: Filters, report: Callable[[int], None] | None) -> Manifest:
    with store.snapshot() as snapshot, appearing(path) as file:
        settings = snapshot.settings()
        rules = snapshot.iterate_rules(**asdict(filters))
        samples = settings.samples if filters.sampled else 0
        compressed = _Compressed(file)
        number = _write_lines(rules, samples, compressed.write, report)
        compressed.finish()
        return Manifest(
            MANIFEST_VERSION,
            version("hierogram"),
            FORMAT,
            path.name,
            store.url,
            snapshot.position(),
            asdict(settings),
            asdict(filters),
            number,
            compressed.bytes,
            compressed.digest.hexdigest(),
            datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        )


def _write_lines(
    rules: Iterable[RuleRow], samples: int, write: Callable[[str], None], report: Callable[[int], None] | None
) -> int:
    """Write a line for each rule; counts are those over `samples` samples, the current ones where that is 0."""
    lines: list[str] = []
    number = 0
    for number, rule in enumerate(rules, 1):
        lines.append(rule_line(rule, rule.sampled_count / samples if samples else rule.count))
        if len(lines) == _LINES_A_WRITE:
            write("".join(lines))
            lines.clear()
            if report:
                report(number)
    write("".join(lines))
    return number
