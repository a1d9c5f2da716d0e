"""Exports read back, a rule at a time: for comparing two of them."""

import io
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import zstandard

from hierogram.daemon.exceptions import ExportError
from hierogram.daemon.exports.formats.features import BY_NAME
from hierogram.daemon.exports.formats.format import ReadRule
from hierogram.daemon.exports.formats.registry import find_format
from hierogram.daemon.exports.manifest import manifest_path, read_manifest
from hierogram.daemon.exports.publication import MANIFEST

_READ_BYTES = 1 << 20
_GZIP_WINDOW = 47


class Exported(NamedTuple):
    """An export on the disk."""

    path: Path
    manifest: dict[str, Any]


def find_export(path: Path) -> Exported:
    """The export in a file or in a version's folder; raises `ExportError` where its manifest is missing."""
    if path.is_dir():
        manifest = read_manifest(path / MANIFEST)
        return Exported(path / str(manifest["file"]), manifest)
    return Exported(path, read_manifest(manifest_path(path)))


def read_export(exported: Exported) -> Iterator[ReadRule]:
    """The rules of an export in its order; raises `ExportError` where a line is not of its format."""
    try:
        format = find_format(exported.manifest["format"])
        features = [BY_NAME[name] for name in exported.manifest["features"]]
    except (ValueError, KeyError) as error:
        raise ExportError(f"{exported.path}: its manifest is none that this version reads: {error}") from error
    if format.reader is None:
        yield from _parquet(exported.path)
        return
    read = format.reader(features, int(exported.manifest["manifest_version"]))
    for number, line in enumerate(_lines(exported.path, exported.manifest["compression"]), 1):
        if format.header is not None and number == 1:
            continue
        try:
            yield read(line)
        except (IndexError, ValueError, KeyError) as error:
            raise ExportError(f"{exported.path}, line {number}: is no line of a {format.name} export") from error


def _lines(path: Path, compression: str) -> Iterator[str]:
    try:
        with path.open("rb") as raw:
            if compression == "zstd":
                stream: Iterator[bytes] = iter(zstandard.ZstdDecompressor().read_to_iter(raw))
            elif compression == "gzip":
                stream = _gunzipped(raw)
            else:
                stream = iter(lambda: raw.read(_READ_BYTES), b"")
            rest = b""
            for data in stream:
                *lines, rest = (rest + data).split(b"\n")
                for line in lines:
                    yield line.decode()
            if rest:
                raise ExportError(f"{path}: ends in the middle of a line")
    except (OSError, zlib.error, zstandard.ZstdError, UnicodeDecodeError) as error:
        raise ExportError(f"{path}: cannot be read: {error}") from error


def _gunzipped(raw: io.BufferedReader) -> Iterator[bytes]:
    opened = zlib.decompressobj(_GZIP_WINDOW)
    while data := raw.read(_READ_BYTES):
        yield opened.decompress(data)
    yield opened.flush()


def _parquet(path: Path) -> Iterator[ReadRule]:
    import duckdb

    with duckdb.connect(":memory:") as connection:
        relation = connection.execute("SELECT * FROM read_parquet($1, hive_partitioning=false)", [str(path)])
        names = [column[0] for column in relation.description or ()]
        source, target = names.index("source"), names.index("target")
        count = names.index("count") if "count" in names else None
        while rows := relation.fetchmany(10_000):
            for row in rows:
                yield ReadRule(row[source], row[target], None if count is None else float(row[count]))
