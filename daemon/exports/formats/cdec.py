"""cdec: `[X] ||| source ||| target ||| Name=value … ||| 0-0 1-1`, logarithms to base 10.

A word in brackets is a nonterminal to cdec, whatever the word, and a word `|||` ends a field: both stand after a
backslash, as in the store's own notation. An indicator is written where it is 1, as features that are absent are 0.
"""

from hierogram.daemon.compressing import Compression
from hierogram.daemon.exports.formats.format import Chosen, Format, ReadRule, concatenated, is_plain, mapped, plain

NAMES = {
    "p_target_given_source": "EGivenF",
    "p_source_given_target": "FGivenE",
    "lex_target_given_source": "LexEGivenF",
    "lex_source_given_target": "LexFGivenE",
    "count": "Count",
    "singleton": "IsSingletonFE",
    "source_singleton": "IsSingletonF",
    "terminals_only": "IsTerminalsOnly",
}

_LOGARITHMIC = ("p_target_given_source", "p_source_given_target", "lex_target_given_source", "lex_source_given_target")
_MISTAKABLE = "(x = '|||' OR (starts_with(x, '[') AND ends_with(x, ']')))"


def _side(side: str) -> str:
    escaped = mapped(side, f"CASE WHEN {_MISTAKABLE} THEN '\\' || x ELSE x END", "x")
    return f"CASE WHEN {is_plain(side, '|')} THEN {side} ELSE {escaped} END"


def _line(features: Chosen) -> str:
    values = []
    for feature in features:
        if feature.name in _LOGARITHMIC or feature.name == "count":
            values += [f"' {NAMES[feature.name]}='", plain(f"log10({feature.name})")]
        else:
            values.append(f"CASE WHEN {feature.name} = 1 THEN ' {NAMES[feature.name]}=1' ELSE '' END")
    links = "CASE WHEN alignment = '' THEN '' ELSE ' ||| ' || alignment END"
    return concatenated("'[X] ||| '", _side("source"), "' ||| '", _side("target"), "' |||'", *values, links)


def read_named(line: str, _: Chosen, base: float = 10.0) -> ReadRule:
    """Read a line with features by name, whose count is a logarithm to the base."""
    fields, count = line.split(" ||| "), f"{NAMES['count']}="
    found = (float(base ** float(named[len(count) :])) for named in fields[3].split(" ") if named.startswith(count))
    return ReadRule(fields[1], fields[2], next(found, None))


CDEC = Format(
    name="cdec",
    meaning="grammar of cdec, log10 features by name",
    suffix=".cdec",
    compression=Compression.GZIP,
    features=tuple(NAMES),
    line=_line,
    read=read_named,
    alignments=True,
)
