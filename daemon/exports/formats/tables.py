"""Tables for analysis: JSON lines, tab-separated values, Parquet; sides in the store's notation, plain values."""

from hierogram.daemon.exports.features import FEATURES
from hierogram.daemon.exports.formats.format import Chosen, Format
from hierogram.daemon.exports.options import Compression
from hierogram.daemon.exports.tables.notation import concatenated

_SHAPE = ("scope", "nonterminals")
_RULE = ("source", "target", "alignment", *_SHAPE, "source_count", "target_count")
_TEXTS = ("source", "target", "alignment")
_FEATURES = tuple(feature.name for feature in FEATURES if feature.name != "glue")


def columns(features: Chosen) -> list[str]:
    """The columns of a rule, in order."""
    return [*_RULE, *(feature.name for feature in features)]


def _json_line(features: Chosen) -> str:
    parts: list[str] = []
    for name in columns(features):
        value = f"CAST(to_json({name}) AS VARCHAR)" if name in _TEXTS else f"CAST({name} AS VARCHAR)"
        parts += [f"""'{", " if parts else "{"}"{name}": '""", value]
    return concatenated(*parts, "'}'")


def _tab_line(features: Chosen) -> str:
    return f"concat_ws('\t', {', '.join(f'CAST({name} AS VARCHAR)' for name in columns(features))})"


def _tab_header(features: Chosen) -> str:
    return "\t".join(columns(features))


JSONL = Format(
    name="jsonl",
    meaning="a JSON object a line",
    suffix=".jsonl",
    compression=Compression.ZSTD,
    features=_FEATURES,
    needs=None,
    line=_json_line,
    alignments=True,
    shape=_SHAPE,
)
TSV = Format(
    name="tsv",
    meaning="columns separated by tabs, the first line names them; nothing is quoted",
    suffix=".tsv",
    compression=Compression.ZSTD,
    features=_FEATURES,
    needs=None,
    line=_tab_line,
    header=_tab_header,
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
    line=None,
    alignments=True,
    shape=_SHAPE,
)
