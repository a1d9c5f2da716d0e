"""Formats of tree grammars: fragments in brackets, and the CFG that has the same probabilities."""

from hierogram.daemon.compressing import Compression
from hierogram.daemon.exports.formats.format import Chosen, Format, Reader, ReadRule
from hierogram.daemon.exports.formats.notation import plain
from hierogram.samplers.grammar.kinds import FRAGMENTS as TREE_FRAGMENTS

_FEATURES = ("p_target_given_source", "count")

# The pieces between the spaces of a fragment: `(NN))` is a frontier, `(DT` a label within, `the)` a word.
_FRONTIER = "piece LIKE '(%' AND piece LIKE '%)'"
_FLAT = f"""array_to_string([
    CASE WHEN {_FRONTIER} THEN '[' || rtrim(piece[2:], ')') || ']'
         WHEN piece LIKE '[%' OR piece LIKE '\\%' THEN '\\' || rtrim(piece, ')')
         ELSE rtrim(piece, ')') END
    FOR piece IN string_split(target, ' ') IF piece NOT LIKE '(%' OR {_FRONTIER}], ' ')"""


def _fragment_reader(_: Chosen, __: int) -> Reader:
    def read(line: str) -> ReadRule:
        fragment, count, _ = line.split(" ||| ")
        return ReadRule(_root(fragment), fragment, float(count))

    return read


def _flat_reader(_: Chosen, __: int) -> Reader:
    def read(line: str) -> ReadRule:
        # From behind, because a word of the flat rule may be `|||`; in a fragment a bracket comes after it.
        _, values, fragment = line.rsplit(" ||| ", 2)
        return ReadRule(_root(fragment), fragment, float(values.split(" ")[1]))

    return read


def _root(fragment: str) -> str:
    return fragment[1:].split(" ", 1)[0]


FRAGMENTS = Format(
    name="fragments",
    meaning="a fragment in brackets, its count, its relative frequency among those of its root label",
    suffix=".fragments",
    compression=Compression.ZSTD,
    features=_FEATURES,
    fixed=True,
    line=lambda _: f"target || ' ||| ' || {plain('count')} || ' ||| ' || {plain('p_target_given_source')}",
    reader=_fragment_reader,
    needs=TREE_FRAGMENTS,
)
PCFG = Format(
    name="pcfg",
    meaning="the CFG rule that a fragment amounts to: root label, frontier, probability and count, and the fragment",
    suffix=".pcfg",
    compression=Compression.ZSTD,
    features=_FEATURES,
    fixed=True,
    line=lambda _: (
        f"'[' || source || '] ||| ' || {_FLAT} || ' ||| ' || {plain('p_target_given_source')}"
        f" || ' ' || {plain('count')} || ' ||| ' || target"
    ),
    reader=_flat_reader,
    needs=TREE_FRAGMENTS,
)
