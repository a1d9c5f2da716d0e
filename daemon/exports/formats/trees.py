"""Formats of tree grammars: fragments in brackets, and the CFG that has the same probabilities."""

from functools import partial

from hierogram.daemon.compressing import Compression
from hierogram.daemon.exports.formats.format import FeatureSet, Format, ReadRule, plain
from hierogram.samplers.grammar.kinds import FRAGMENTS as TREE_FRAGMENTS

_FEATURES = ("p_target_given_source", "count")

# Pieces of a fragment between spaces: `(NN)` is a frontier node, `(DT` an inner label, `the)` a word.
_FRONTIER = "piece LIKE '(%' AND piece LIKE '%)'"
_FLAT = f"""array_to_string([
    CASE WHEN {_FRONTIER} THEN '[' || rtrim(piece[2:], ')') || ']'
         WHEN piece LIKE '[%' OR piece LIKE '\\%' THEN '\\' || rtrim(piece, ')')
         ELSE rtrim(piece, ')') END
    FOR piece IN string_split(target, ' ') IF piece NOT LIKE '(%' OR {_FRONTIER}], ' ')"""


def _read_fragment(line: str, _: FeatureSet) -> ReadRule:
    fragment, count, _share = line.split(" ||| ")
    return ReadRule(_root(fragment), fragment, float(count))


def _read_flat(line: str, _: FeatureSet) -> ReadRule:
    # Split from the end, because a word of the flat rule may be `|||`; in a fragment, a bracket follows it.
    _rule, values, fragment = line.rsplit(" ||| ", 2)
    return ReadRule(_root(fragment), fragment, float(values.split(" ")[1]))


def _root(fragment: str) -> str:
    return fragment[1:].split(" ", 1)[0]


_tree_format = partial(Format, compression=Compression.ZSTD, features=_FEATURES, fixed=True, needs=TREE_FRAGMENTS)

FRAGMENTS = _tree_format(
    name="fragments",
    meaning="bracketed fragment, its count, and its relative frequency given its root label",
    suffix=".fragments",
    line=lambda _: f"target || ' ||| ' || {plain('count')} || ' ||| ' || {plain('p_target_given_source')}",
    read=_read_fragment,
)
PCFG = _tree_format(
    name="pcfg",
    meaning="fragment as a CFG rule: root label, frontier, probability, count, and the fragment",
    suffix=".pcfg",
    line=lambda _: (
        f"'[' || source || '] ||| ' || {_FLAT} || ' ||| ' || {plain('p_target_given_source')}"
        f" || ' ' || {plain('count')} || ' ||| ' || target"
    ),
    read=_read_flat,
)
