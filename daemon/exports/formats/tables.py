"""Tables for analysis: JSON lines, tab-separated values, Parquet; sides in the store's notation, plain values."""

import csv
import json

from hierogram.daemon.compressing import Compression
from hierogram.daemon.exports.formats.format import FEATURES, Chosen, Format, Reader, ReadRule
from hierogram.daemon.exports.formats.notation import concatenated

_QUOTED_SINCE = 3
"""Version of the manifest since which fields of tab-separated values are quoted where they need it."""

_SHAPE = ("scope", "nonterminals")
_RULE = ("source", "target", "alignment", *_SHAPE, "source_count", "target_count")
_TEXTS = ("source", "target", "alignment")
_FEATURES = tuple(feature.name for feature in FEATURES if feature.name != "glue")


def columns(features: Chosen) -> list[str]:
    """Return the columns of a rule, in order."""
    return [*_RULE, *(feature.name for feature in features)]


def _json_line(features: Chosen) -> str:
    parts: list[str] = []
    for name in columns(features):
        value = f"CAST(to_json({name}) AS VARCHAR)" if name in _TEXTS else f"CAST({name} AS VARCHAR)"
        parts += [f"""'{", " if parts else "{"}"{name}": '""", value]
    return concatenated(*parts, "'}'")


def _json_reader(_: Chosen, __: int) -> Reader:
    def read(line: str) -> ReadRule:
        rule = json.loads(line)
        return ReadRule(rule["source"], rule["target"], rule.get("count"))

    return read


def _tab_line(features: Chosen) -> str:
    values = (_field(name) if name in _TEXTS else f"CAST({name} AS VARCHAR)" for name in columns(features))
    return f"concat_ws('\t', {', '.join(values)})"


def _field(name: str) -> str:
    """Write a text as readers of such tables want it: in quotes where it has one, or what some take for line ends."""
    odd = " OR ".join(f"contains({name}, {character})" for character in ("'\"'", "chr(13)"))
    return f"""CASE WHEN {odd} THEN '"' || replace({name}, '"', '""') || '"' ELSE {name} END"""


def _tab_reader(features: Chosen, version: int) -> Reader:
    names = columns(features)
    place = names.index("count") if "count" in names else None

    def read(line: str) -> ReadRule:
        values = (
            next(csv.reader([line], delimiter="\t")) if version >= _QUOTED_SINCE and '"' in line else line.split("\t")
        )
        return ReadRule(values[0], values[1], None if place is None else float(values[place]))

    return read


JSONL = Format(
    name="jsonl",
    meaning="a JSON object a line",
    suffix=".jsonl",
    compression=Compression.ZSTD,
    features=_FEATURES,
    needs=None,
    line=_json_line,
    reader=_json_reader,
    alignments=True,
    shape=_SHAPE,
)
TSV = Format(
    name="tsv",
    meaning="columns separated by tabs, the first line names them",
    suffix=".tsv",
    compression=Compression.ZSTD,
    features=_FEATURES,
    needs=None,
    line=_tab_line,
    reader=_tab_reader,
    header=lambda features: "\t".join(columns(features)),
    alignments=True,
    shape=_SHAPE,
)
PARQUET = Format(
    name="parquet",
    meaning="Parquet, compressed within",
    suffix=".parquet",
    compression=Compression.NONE,
    features=_FEATURES,
    needs=None,
    alignments=True,
    shape=_SHAPE,
)
