"""Formats of tree grammars: fragments in brackets, and the CFG that has the same probabilities."""

from hierogram.daemon.exports.formats.format import Chosen, Format
from hierogram.daemon.exports.options import Compression
from hierogram.daemon.exports.tables.numbers import plain
from hierogram.samplers.grammar.kinds import FRAGMENTS as TREE_FRAGMENTS

_FEATURES = ("p_target_given_source", "count")

# The pieces between the spaces of a fragment: `(NN))` is a frontier, `(DT` a label within, `the)` a word.
_FRONTIER = "piece LIKE '(%' AND piece LIKE '%)'"
_FLAT = f"""array_to_string([
    CASE WHEN {_FRONTIER} THEN '[' || rtrim(piece[2:], ')') || ']'
         WHEN piece LIKE '[%' OR piece LIKE '\\%' THEN '\\' || rtrim(piece, ')')
         ELSE rtrim(piece, ')') END
    FOR piece IN string_split(target, ' ') IF piece NOT LIKE '(%' OR {_FRONTIER}], ' ')"""


def _fragment_line(_: Chosen) -> str:
    return f"target || ' ||| ' || {plain('count')} || ' ||| ' || {plain('p_target_given_source')}"


def _flat_line(_: Chosen) -> str:
    return (
        f"'[' || source || '] ||| ' || {_FLAT} || ' ||| ' || {plain('p_target_given_source')}"
        f" || ' ' || {plain('count')} || ' ||| ' || target"
    )


FRAGMENTS = Format(
    name="fragments",
    meaning="a fragment in brackets, its count, its relative frequency among those of its root label",
    suffix=".fragments",
    compression=Compression.ZSTD,
    features=_FEATURES,
    fixed=True,
    line=_fragment_line,
    needs=TREE_FRAGMENTS,
)
PCFG = Format(
    name="pcfg",
    meaning="the CFG rule that a fragment amounts to: root label, frontier, probability and count, and the fragment",
    suffix=".pcfg",
    compression=Compression.ZSTD,
    features=_FEATURES,
    fixed=True,
    line=_flat_line,
    needs=TREE_FRAGMENTS,
)
