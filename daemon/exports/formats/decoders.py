"""Grammars of the decoders cdec and Moses, one rule per line, and the configurations of the decoders.

`cdec`: `[X] ||| source ||| target ||| Name=value … ||| 0-0 1-1`, logarithms to base 10. cdec reads any word in brackets
as a nonterminal, and `|||` as the end of a field. So both have a backslash before them, as in the store's own notation.
Values of 0 are omitted, unless they are logarithms, because absent features are 0.

`moses`: the hierarchical rule table, sorted as Moses' tools require, and a glue grammar. The first four scores are
p(f|e) lex(f|e) p(e|f) lex(e|f). Moses takes the logarithm of every score, so values x other than probabilities and
counts are written as e^x. The counts are of the target side, the source side and the rule. `|`, `[` and `]` in words
are written as Moses' own tokenizer escapes them.
"""

import math

from hierogram.daemon.compressing import Compression
from hierogram.daemon.exports.formats.format import (
    DEFAULT_WEIGHTS,
    FEATURES,
    GLUE,
    LM,
    LM_UNKNOWN,
    POPS,
    RULES,
    SPAN,
    UNKNOWN,
    WORDS,
    ConfigurationFile,
    FeatureSet,
    Format,
    ReadRule,
    concatenated,
    is_plain,
    links,
    mapped,
    plain,
    spaced,
    word,
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
"""Feature names in cdec files."""

_LN_10 = math.log(10)
_UNKNOWN_VALUE = -100
"""Score that Moses gives a word without a rule."""


_MISTAKABLE = "(x = '|||' OR (starts_with(x, '[') AND ends_with(x, ']')))"


def _cdec_side(side: str) -> str:
    escaped = mapped(side, f"CASE WHEN {_MISTAKABLE} THEN '\\' || x ELSE x END", "x")
    return f"CASE WHEN {is_plain(side, '|')} THEN {side} ELSE {escaped} END"


def _cdec_line(features: FeatureSet) -> str:
    values = []
    for feature in features:
        if feature.logarithmic:
            values += [f"' {NAMES[feature.name]}='", plain(f"log10({feature.name})")]
        else:
            values.append(f"CASE WHEN {feature.name} = 0 THEN '' ELSE ' {NAMES[feature.name]}=' || {feature.name} END")
    linked = "CASE WHEN alignment = '' THEN '' ELSE ' ||| ' || alignment END"
    bars = "' ||| '"
    sides = ("'[X] ||| '", _cdec_side("source"), bars, _cdec_side("target"), "' |||'")
    return concatenated(*sides, *values, linked)


def _configure_cdec(grammar: str, _: str, features: FeatureSet) -> list[ConfigurationFile]:
    """Return `cdec.ini`, which names the weights, and the file of weights. The user adds the language model."""
    # cdec takes logarithms to base 10, and counts a word as -1 / ln 10.
    weights = {
        NAMES[feature.name]: DEFAULT_WEIGHTS.get(feature.name, 0.0) * (_LN_10 if feature.logarithmic else 1.0)
        for feature in features
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
        f"grammar={grammar}",
        "add_pass_through_rules=true",
        f"scfg_max_span_limit={SPAN}",
        "intersection_strategy=cube_pruning",
        f"cubepruning_pop_limit={POPS}",
        "feature_function=WordPenalty",
    ]
    return [(".ini", lines), (".weights", [f"{name} {value:.6g}" for name, value in weights.items()])]


def _read_cdec(line: str, _: FeatureSet) -> ReadRule:
    fields, count = line.split(" ||| "), f"{NAMES['count']}="
    values = (float(10.0 ** float(named[len(count) :])) for named in fields[3].split(" ") if named.startswith(count))
    return ReadRule(fields[1], fields[2], next(values, None))


CDEC = Format(
    name="cdec",
    meaning="cdec grammar with named log10 features",
    suffix=".cdec",
    compression=Compression.GZIP,
    features=tuple(NAMES),
    line=_cdec_line,
    read=_read_cdec,
    alignments=True,
    configure=_configure_cdec,
)


_GAP = "[X][X]"
"""A nonterminal of Moses. Links pair nonterminals, so they need no numbers."""

MOSES_SCORES = ("p_source_given_target", "lex_source_given_target", "p_target_given_source", "lex_target_given_source")
"""Scores of a Moses rule table, in order."""


def _moses_side(side: str) -> str:
    gaps = "regexp_replace({}, '\\[X,[0-9]+\\]', '[X][X]', 'g')"
    escaped = f"replace(replace(replace({word('x')}, '|', '&#124;'), '[', '&#91;'), ']', '&#93;')"
    slow = mapped(side, escaped, gaps.format("x"))
    quick = f"CASE WHEN nonterminals = 0 THEN {side} ELSE {gaps.format(side)} END"
    return f"CASE WHEN {is_plain(side, '|' + chr(92))} THEN {quick} ELSE {slow} END"


def _moses_line(features: FeatureSet) -> str:
    scores = spaced(*(plain(feature.name if feature.logarithmic else f"exp({feature.name})") for feature in features))
    counts = spaced(*map(plain, ("target_count", "source_count", "count")))
    bars = "' ||| '"
    sides = (_moses_side("source"), "' [X] ||| '", _moses_side("target"), "' [X] ||| '")
    return concatenated(*sides, scores, bars, links("source", "target", "alignment"), bars, counts, "' ||| |||'")


def _read_moses(line: str, _: FeatureSet) -> ReadRule:
    source, target, _scores, alignment, counts, _rest = line.split(" ||| ", 5)
    left, right = source.split(" ")[:-1], target.split(" ")[:-1]
    # A nonterminal has one link. This keeps one link per word.
    linked = {int(i): int(j) for i, j in (link.split("-") for link in alignment.split())}
    gaps = [position for position, symbol in enumerate(left) if symbol == _GAP]
    for number, position in enumerate(gaps, 1):
        left[position] = right[linked[position]] = f"[X,{number}]"
    return ReadRule(" ".join(left), " ".join(right), float(counts.split(" ")[2]))


def _configure_moses(grammar: str, glue: str, features: FeatureSet) -> list[ConfigurationFile]:
    table = "PhraseDictionaryMemory name=TranslationModel{} num-features={} path={} input-factor=0 output-factor=0"
    lines = [
        *("[input-factors]", "0", "", "[mapping]", "0 T 0", "1 T 1", ""),
        *("[cube-pruning-pop-limit]", str(POPS), "", "[non-terminals]", "X", "", "[search-algorithm]", "3", ""),
        *("[inputtype]", "3", "", "[max-chart-span]", str(SPAN), "1000", ""),
        *("[feature]", "UnknownWordPenalty", "WordPenalty", "PhrasePenalty"),
        table.format(0, len(features), grammar),
        table.format(1, 1, glue),
        *("", "[weight]"),
        f"UnknownWordPenalty0= {DEFAULT_WEIGHTS[UNKNOWN] / _UNKNOWN_VALUE:.6g}",
        f"WordPenalty0= {-DEFAULT_WEIGHTS[WORDS]:.6g}",
        f"PhrasePenalty0= {DEFAULT_WEIGHTS[RULES]:.6g}",
        f"TranslationModel0= {' '.join(f'{DEFAULT_WEIGHTS.get(feature.name, 0.0):.6g}' for feature in features)}",
        f"TranslationModel1= {DEFAULT_WEIGHTS[GLUE]:.6g}",
        *("", f"# Language model: LM0= {DEFAULT_WEIGHTS[LM]:.6g}"),
    ]
    return [(".ini", lines)]


MOSES = Format(
    name="moses",
    meaning="Moses rule table in the order of LC_ALL=C sort, and its glue grammar",
    suffix=".moses",
    compression=Compression.GZIP,
    features=(*MOSES_SCORES, *(own.name for own in FEATURES if own.name not in MOSES_SCORES)),
    line=_moses_line,
    read=_read_moses,
    order="line",
    configure=_configure_moses,
    glue=(
        "<s> [X] ||| <s> [S] ||| 1 ||| 0-0 ||| 0",
        "[X][S] </s> [X] ||| [X][S] </s> [S] ||| 1 ||| 0-0 1-1 ||| 0",
        "[X][S] [X][X] [X] ||| [X][S] [X][X] [S] ||| 2.718 ||| 0-0 1-1 ||| 0",
    ),
    alignments=True,
)
