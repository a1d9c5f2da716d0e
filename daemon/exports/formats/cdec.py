"""cdec: `[X] ||| source ||| target ||| Name=value … ||| 0-0 1-1`, logarithms to base 10.

A word in brackets is a nonterminal to cdec, whatever the word, and a word `|||` ends a field: both stand after a
backslash, as in the store's own notation. What is no logarithm is left out where it is 0, as absent features are 0.
"""

import math

from hierogram.daemon.compressing import Compression
from hierogram.daemon.exports.formats.format import (
    DEFAULT_WEIGHTS,
    GLUE,
    LM,
    LM_UNKNOWN,
    POPS,
    SPAN,
    UNKNOWN,
    WORDS,
    Chosen,
    ConfigurationFile,
    Format,
    ReadRule,
    concatenated,
    is_plain,
    mapped,
    plain,
)

NAMES = {
    "p_target_given_source": "EGivenF",
    "p_source_given_target": "FGivenE",
    "lex_target_given_source": "LexEGivenF",
    "lex_source_given_target": "LexFGivenE",
    "count": "Count",
    "source_count": "CountF",
    "target_count": "CountE",
    "quarter": "IsQuarter",
    "half": "IsHalf",
    "singleton": "IsSingletonFE",
    "rare": "IsRare",
    "source_singleton": "IsSingletonF",
    "terminals_only": "IsTerminalsOnly",
    "nonterminals": "Nonterminals",
    "scope": "Scope",
    "source_words": "WordsF",
    "target_words": "WordsE",
    "one_word": "IsOneWord",
    "two_words": "IsTwoWords",
    "minimal": "IsMinimal",
}
"""Names of features in the file, which `thrax` has, too."""

_MISTAKABLE = "(x = '|||' OR (starts_with(x, '[') AND ends_with(x, ']')))"


def _side(side: str) -> str:
    escaped = mapped(side, f"CASE WHEN {_MISTAKABLE} THEN '\\' || x ELSE x END", "x")
    return f"CASE WHEN {is_plain(side, '|')} THEN {side} ELSE {escaped} END"


def _line(features: Chosen) -> str:
    values = []
    for feature in features:
        if feature.logarithmic:
            values += [f"' {NAMES[feature.name]}='", plain(f"log10({feature.name})")]
        else:
            values.append(f"CASE WHEN {feature.name} = 0 THEN '' ELSE ' {NAMES[feature.name]}=' || {feature.name} END")
    links = "CASE WHEN alignment = '' THEN '' ELSE ' ||| ' || alignment END"
    return concatenated("'[X] ||| '", _side("source"), "' ||| '", _side("target"), "' |||'", *values, links)


_LN_10 = math.log(10)


def _configure(grammar: str | None, _: str, features: Chosen) -> list[ConfigurationFile]:
    """Return `cdec.ini`, which names the weights, and the weights; without a language model, which the caller adds."""
    # Logarithms are to base 10 here, and a word counts -1 / ln 10.
    weights = {
        NAMES[own.name]: DEFAULT_WEIGHTS.get(own.name, 0.0) * (_LN_10 if own.logarithmic else 1.0) for own in features
    }
    weights |= {
        "LanguageModel": DEFAULT_WEIGHTS[LM] * _LN_10,
        "LanguageModel_OOV": DEFAULT_WEIGHTS[LM_UNKNOWN],
        "WordPenalty": -DEFAULT_WEIGHTS[WORDS] * _LN_10,
        "Glue": DEFAULT_WEIGHTS[GLUE],
        "PassThrough": DEFAULT_WEIGHTS[UNKNOWN],
    }
    lines = [
        "formalism=scfg",
        *([] if grammar is None else [f"grammar={grammar}"]),
        "add_pass_through_rules=true",
        f"scfg_max_span_limit={SPAN}",
        "intersection_strategy=cube_pruning",
        f"cubepruning_pop_limit={POPS}",
        "feature_function=WordPenalty",
    ]
    return [(".ini", lines), (".weights", [f"{name} {value:.6g}" for name, value in weights.items()])]


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
    configure=_configure,
)
