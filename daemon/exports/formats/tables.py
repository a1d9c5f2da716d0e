"""Tables for analysis: JSON lines, TSV, Parquet. Sides are in the store's notation, values are linear."""

import csv
import json
from functools import partial

from hierogram.daemon.compressing import Compression
from hierogram.daemon.exports.formats.format import FEATURES, FeatureSet, Format, ReadRule, concatenated

_SHAPE = ("scope", "nonterminals")
_RULE = ("source", "target", "alignment", *_SHAPE, "source_count", "target_count")
_TEXTS = ("source", "target", "alignment")
_FEATURES = tuple(feature.name for feature in FEATURES)


def columns(features: FeatureSet) -> list[str]:
    """Return the columns of a rule, in order."""
    return [*_RULE, *(feature.name for feature in features if feature.name not in _RULE)]


def _json_line(features: FeatureSet) -> str:
    parts: list[str] = []
    for name in columns(features):
        value = f"CAST(to_json({name}) AS VARCHAR)" if name in _TEXTS else f"CAST({name} AS VARCHAR)"
        parts += [f"""'{", " if parts else "{"}"{name}": '""", value]
    return concatenated(*parts, "'}'")


def _read_json(line: str, _: FeatureSet) -> ReadRule:
    rule = json.loads(line)
    return ReadRule(rule["source"], rule["target"], rule.get("count"))


def _tab_line(features: FeatureSet) -> str:
    values = []
    for name in columns(features):
        if name in _TEXTS:
            # A value with a quotation mark or a carriage return needs quotation marks, since readers treat the latter
            # as a line end.
            needs_quotes = " OR ".join(f"contains({name}, {character})" for character in ("'\"'", "chr(13)"))
            values.append(f"""CASE WHEN {needs_quotes} THEN '"' || replace({name}, '"', '""') || '"' ELSE {name} END""")
        else:
            values.append(f"CAST({name} AS VARCHAR)")
    return f"concat_ws('\t', {', '.join(values)})"


def _read_tabs(line: str, features: FeatureSet) -> ReadRule:
    fields = next(csv.reader([line], delimiter="\t")) if '"' in line else line.split("\t")
    values = dict(zip(columns(features), fields, strict=True))
    return ReadRule(values["source"], values["target"], float(values["count"]) if "count" in values else None)


_table = partial(Format, features=_FEATURES, needs=None, alignments=True, shape=_SHAPE)

JSONL = _table(
    name="jsonl",
    meaning="one JSON object per line",
    suffix=".jsonl",
    compression=Compression.ZSTD,
    line=_json_line,
    read=_read_json,
)
TSV = _table(
    name="tsv",
    meaning="tab-separated columns with a header line",
    suffix=".tsv",
    compression=Compression.ZSTD,
    line=_tab_line,
    read=_read_tabs,
    header=lambda features: "\t".join(columns(features)),
)
PARQUET = _table(name="parquet", meaning="Parquet with internal compression", suffix=".parquet")
