"""Exports read back, a rule at a time: for comparing two of them."""

import io
import json
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import zstandard

from hierogram.daemon.exceptions import ExportError
from hierogram.daemon.exports.formats.cdec import NAMES
from hierogram.daemon.exports.manifest import manifest_path, read_manifest
from hierogram.daemon.exports.publication import MANIFEST

_READ_BYTES = 1 << 20
_GZIP_WINDOW = 47
_CDEC_COUNT = NAMES["count"] + "="
_MOSES_FIELDS = 5


@dataclass(frozen=True, slots=True)
class ReadRule:
    """A rule as an export writes it; the count is None where the format or the choice of features leaves it out."""

    source: str
    target: str
    count: float | None


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
    name = exported.manifest["format"]
    if name == "parquet":
        yield from _parquet(exported.path)
        return
    if name not in _READERS:
        raise ExportError(f"{exported.path}: no exports of format {name!r} can be compared")
    features = list(exported.manifest["features"])
    read = _READERS[name](features)
    for number, line in enumerate(_lines(exported.path, exported.manifest["compression"]), 1):
        if name == "tsv" and number == 1:
            continue
        try:
            yield read(line)
        except (IndexError, ValueError, KeyError) as error:
            raise ExportError(f"{exported.path}, line {number}: is no line of a {name} export") from error


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
        relation = connection.execute("SELECT * FROM read_parquet($1)", [str(path)])
        names = [column[0] for column in relation.description or ()]
        source, target = names.index("source"), names.index("target")
        count = names.index("count") if "count" in names else None
        while rows := relation.fetchmany(10_000):
            for row in rows:
                yield ReadRule(row[source], row[target], None if count is None else float(row[count]))


def _bars(value: Callable[[list[str]], float | None]) -> Callable[[list[str]], Callable[[str], ReadRule]]:
    def of(_: list[str]) -> Callable[[str], ReadRule]:
        def read(line: str) -> ReadRule:
            fields = line.split(" ||| ")
            return ReadRule(fields[1], fields[2], value(fields))

        return read

    return of


def _named(base: float) -> Callable[[list[str]], float | None]:
    def value(fields: list[str]) -> float | None:
        for feature in fields[3].split(" "):
            if feature.startswith(_CDEC_COUNT):
                return float(base ** float(feature[len(_CDEC_COUNT) :]))
        return None

    return value


def _dense(features: list[str]) -> Callable[[str], ReadRule]:
    place = features.index("count") if "count" in features else None

    def read(line: str) -> ReadRule:
        fields = line.split(" ||| ")
        values = fields[3].split(" ")
        return ReadRule(fields[1], fields[2], None if place is None else float(_E ** -float(values[place])))

    return read


def _moses(_: list[str]) -> Callable[[str], ReadRule]:
    def read(line: str) -> ReadRule:
        fields = line.split(" ||| ")
        return ReadRule(fields[0], fields[1], float(fields[_MOSES_FIELDS - 1].split(" ")[2]))

    return read


def _fragments(_: list[str]) -> Callable[[str], ReadRule]:
    def read(line: str) -> ReadRule:
        fragment, count, _ = line.split(" ||| ")
        return ReadRule(_root(fragment), fragment, float(count))

    return read


def _context_free(_: list[str]) -> Callable[[str], ReadRule]:
    def read(line: str) -> ReadRule:
        # From behind, because a word of the flat rule may be `|||`; in a fragment a bracket comes after it.
        _, values, fragment = line.rsplit(" ||| ", 2)
        return ReadRule(_root(fragment), fragment, float(values.split(" ")[1]))

    return read


def _root(fragment: str) -> str:
    return fragment[1:].split(" ", 1)[0]


def _json(_: list[str]) -> Callable[[str], ReadRule]:
    def read(line: str) -> ReadRule:
        rule = json.loads(line)
        return ReadRule(rule["source"], rule["target"], rule.get("count"))

    return read


def _tabs(features: list[str]) -> Callable[[str], ReadRule]:
    from hierogram.daemon.exports.features import BY_NAME
    from hierogram.daemon.exports.formats.tables import columns

    names = columns([BY_NAME[name] for name in features])
    place = names.index("count") if "count" in names else None

    def read(line: str) -> ReadRule:
        values = line.split("\t")
        return ReadRule(values[0], values[1], None if place is None else float(values[place]))

    return read


_E = 2.718281828459045
_READERS: dict[str, Callable[[list[str]], Callable[[str], ReadRule]]] = {
    "cdec": _bars(_named(10.0)),
    "thrax": _bars(_named(1 / _E)),
    "joshua": _dense,
    "moses": _moses,
    "jsonl": _json,
    "tsv": _tabs,
    "fragments": _fragments,
    "pcfg": _context_free,
}
