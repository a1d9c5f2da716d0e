"""Formats of exports, and their registry `FORMATS`. docs/exports.md shows a line of each format.

cdec reads any word in brackets as a nonterminal, and `|||` as the end of a field. Both are escaped with a backslash, as
in the store's own notation. Features of value 0 are omitted, because cdec takes absent features as 0. Logarithmic
features are always written.

Moses takes the logarithm of every score, so values x other than probabilities and counts are written as e^x. The rule
table is sorted as Moses' tools require. `|`, `[` and `]` in words are written as Moses' own tokenizer escapes them.
"""

import csv
import json
import math
from functools import partial

from hierogram.daemon.exports.format import (
    DEFAULT_WEIGHTS,
    FEATURES,
    GLUE,
    LM,
    LM_UNKNOWN,
    MAX_SPAN,
    POP_LIMIT,
    RULES,
    UNKNOWN,
    WORDS,
    ConfigurationFile,
    FeatureSet,
    Format,
    ReadRule,
    concat,
    concat_with_spaces,
    format_number,
    links,
    map_symbols,
    needs_no_escape,
    word,
)
from hierogram.daemon.files import Compression, split_suffix
from hierogram.samplers.grammar.kinds import FRAGMENTS as TREE_FRAGMENTS
from hierogram.samplers.grammar.kinds import LINKS, GrammarKind

CDEC_NAMES = {
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


_LN_10 = math.log(10)
_UNKNOWN_VALUE = -100
"""Score that Moses gives a word without a rule."""

_NEEDS_ESCAPE = "(x = '|||' OR (starts_with(x, '[') AND ends_with(x, ']')))"


def _cdec_side(side: str) -> str:
    escaped = map_symbols(side, f"CASE WHEN {_NEEDS_ESCAPE} THEN '\\' || x ELSE x END", "x")
    return f"CASE WHEN {needs_no_escape(side, '|')} THEN {side} ELSE {escaped} END"


def _cdec_line(features: FeatureSet) -> str:
    values = []
    for feature in features:
        if feature.logarithmic:
            values += [f"' {CDEC_NAMES[feature.name]}='", format_number(f"log10({feature.name})")]
        else:
            named = f"' {CDEC_NAMES[feature.name]}=' || {feature.name}"
            values.append(f"CASE WHEN {feature.name} = 0 THEN '' ELSE {named} END")
    linked = "CASE WHEN alignment = '' THEN '' ELSE ' ||| ' || alignment END"
    bars = "' ||| '"
    sides = ("'[X] ||| '", _cdec_side("source"), bars, _cdec_side("target"), "' |||'")
    return concat(*sides, *values, linked)


def _configure_cdec(grammar: str, _: str, features: FeatureSet) -> list[ConfigurationFile]:

    # Convert the weights, because cdec takes logarithms to base 10 and counts a word as -1 / ln 10.
    weights = {
        CDEC_NAMES[feature.name]: DEFAULT_WEIGHTS.get(feature.name, 0.0) * (_LN_10 if feature.logarithmic else 1.0)
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
        f"scfg_max_span_limit={MAX_SPAN}",
        "intersection_strategy=cube_pruning",
        f"cubepruning_pop_limit={POP_LIMIT}",
        "feature_function=WordPenalty",
    ]
    return [(".ini", lines), (".weights", [f"{name} {value:.6g}" for name, value in weights.items()])]


def _read_cdec(line: str, _: FeatureSet) -> ReadRule:
    fields, count = line.split(" ||| "), f"{CDEC_NAMES['count']}="
    values = (float(10.0 ** float(named[len(count) :])) for named in fields[3].split(" ") if named.startswith(count))
    return fields[1], fields[2], next(values, None)


CDEC = Format(
    name="cdec",
    suffix=".cdec",
    compression=Compression.GZIP,
    features=tuple(CDEC_NAMES),
    line=_cdec_line,
    read=_read_cdec,
    alignments=True,
    configure=_configure_cdec,
)


_GAP = "[X][X]"
"""Nonterminal in a Moses rule table. Links pair the nonterminals, so they need no numbers."""

MOSES_SCORES = ("p_source_given_target", "lex_source_given_target", "p_target_given_source", "lex_target_given_source")
"""First scores of a Moses rule table, in order."""


def _moses_side(side: str) -> str:
    gaps = "regexp_replace({}, '\\[X,[0-9]+\\]', '[X][X]', 'g')"
    escaped = f"replace(replace(replace({word('x')}, '|', '&#124;'), '[', '&#91;'), ']', '&#93;')"
    slow = map_symbols(side, escaped, gaps.format("x"))
    quick = f"CASE WHEN nonterminals = 0 THEN {side} ELSE {gaps.format(side)} END"
    return f"CASE WHEN {needs_no_escape(side, '|' + chr(92))} THEN {quick} ELSE {slow} END"


def _moses_line(features: FeatureSet) -> str:
    scores = concat_with_spaces(
        *(format_number(feature.name if feature.logarithmic else f"exp({feature.name})") for feature in features)
    )
    counts = concat_with_spaces(*map(format_number, ("target_count", "source_count", "count")))
    bars = "' ||| '"
    sides = (_moses_side("source"), "' [X] ||| '", _moses_side("target"), "' [X] ||| '")
    return concat(*sides, scores, bars, links("source", "target", "alignment"), bars, counts, "' ||| |||'")


def _read_moses(line: str, _: FeatureSet) -> ReadRule:
    source, target, _scores, alignment, counts, _rest = line.split(" ||| ", 5)
    left, right = source.split(" ")[:-1], target.split(" ")[:-1]
    # Keep one link per symbol, because only nonterminals are looked up, and each nonterminal has one link.
    linked = {int(i): int(j) for i, j in (link.split("-") for link in alignment.split())}
    gaps = [position for position, symbol in enumerate(left) if symbol == _GAP]
    for number, position in enumerate(gaps, 1):
        left[position] = right[linked[position]] = f"[X,{number}]"
    return " ".join(left), " ".join(right), float(counts.split(" ")[2])


def _configure_moses(grammar: str, glue: str, features: FeatureSet) -> list[ConfigurationFile]:
    table = "PhraseDictionaryMemory name=TranslationModel{} num-features={} path={} input-factor=0 output-factor=0"
    lines = [
        *("[input-factors]", "0", "", "[mapping]", "0 T 0", "1 T 1", ""),
        *("[cube-pruning-pop-limit]", str(POP_LIMIT), "", "[non-terminals]", "X", "", "[search-algorithm]", "3", ""),
        *("[inputtype]", "3", "", "[max-chart-span]", str(MAX_SPAN), "1000", ""),
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
    suffix=".moses",
    compression=Compression.GZIP,
    features=(*MOSES_SCORES, *(feature.name for feature in FEATURES if feature.name not in MOSES_SCORES)),
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


_TREE_FEATURES = ("p_target_given_source", "count")

# A piece `(NN)` of a fragment is a frontier node, `(DT` is an inner label, and other pieces, such as `the)`, are words.
_FRONTIER = "piece LIKE '(%' AND piece LIKE '%)'"
_FLAT = f"""array_to_string([
    CASE WHEN {_FRONTIER} THEN '[' || rtrim(piece[2:], ')') || ']'
         WHEN piece LIKE '[%' OR piece LIKE '\\%' THEN '\\' || rtrim(piece, ')')
         ELSE rtrim(piece, ')') END
    FOR piece IN string_split(target, ' ') IF piece NOT LIKE '(%' OR {_FRONTIER}], ' ')"""


def _read_fragment(line: str, _: FeatureSet) -> ReadRule:
    # Split from the end, because a word of the fragment may be `|||`.
    fragment, count, _share = line.rsplit(" ||| ", 2)
    return _root(fragment), fragment, float(count)


def _read_flat(line: str, _: FeatureSet) -> ReadRule:
    # Search for a round bracket, which only the fragment contains, because words may be `|||`.
    rule_and_values, fragment = line.split(" ||| (", 1)
    _rule, values = rule_and_values.rsplit(" ||| ", 1)
    fragment = f"({fragment}"
    return _root(fragment), fragment, float(values.split(" ")[1])


def _root(fragment: str) -> str:
    return fragment[1:].split(" ", 1)[0]


_tree_format = partial(Format, compression=Compression.ZSTD, features=_TREE_FEATURES, fixed=True, needs=TREE_FRAGMENTS)

FRAGMENTS = _tree_format(
    name="fragments",
    suffix=".fragments",
    line=lambda _: (
        f"target || ' ||| ' || {format_number('count')} || ' ||| ' || {format_number('p_target_given_source')}"
    ),
    read=_read_fragment,
)
PCFG = _tree_format(
    name="pcfg",
    suffix=".pcfg",
    line=lambda _: (
        f"'[' || source || '] ||| ' || {_FLAT} || ' ||| ' || {format_number('p_target_given_source')}"
        f" || ' ' || {format_number('count')} || ' ||| ' || target"
    ),
    read=_read_flat,
)


_TABLE_SHAPE = ("scope", "nonterminals")
_RULE_COLUMNS = ("source", "target", "alignment", *_TABLE_SHAPE, "source_count", "target_count")
_TEXT_COLUMNS = ("source", "target", "alignment")
_TABLE_FEATURES = tuple(feature.name for feature in FEATURES)


def columns(features: FeatureSet) -> list[str]:
    """Return the columns of a table of rules, in order."""
    return [*_RULE_COLUMNS, *(feature.name for feature in features if feature.name not in _RULE_COLUMNS)]


def _json_line(features: FeatureSet) -> str:
    parts: list[str] = []
    for name in columns(features):
        value = f"CAST(to_json({name}) AS VARCHAR)" if name in _TEXT_COLUMNS else f"CAST({name} AS VARCHAR)"
        parts += [f"""'{", " if parts else "{"}"{name}": '""", value]
    return concat(*parts, "'}'")


def _read_json(line: str, _: FeatureSet) -> ReadRule:
    rule = json.loads(line)
    return rule["source"], rule["target"], rule.get("count")


def _tab_line(features: FeatureSet) -> str:
    values = []
    for name in columns(features):
        if name in _TEXT_COLUMNS:
            # Quote values that contain a quotation mark, or a carriage return, which readers treat as a line end.
            needs_quotes = " OR ".join(f"contains({name}, {character})" for character in ("'\"'", "chr(13)"))
            values.append(f"""CASE WHEN {needs_quotes} THEN '"' || replace({name}, '"', '""') || '"' ELSE {name} END""")
        else:
            values.append(f"CAST({name} AS VARCHAR)")
    return f"concat_ws('\t', {', '.join(values)})"


def _read_tabs(line: str, features: FeatureSet) -> ReadRule:
    fields = next(csv.reader([line], delimiter="\t")) if '"' in line else line.split("\t")
    values = dict(zip(columns(features), fields, strict=True))
    return values["source"], values["target"], float(values["count"]) if "count" in values else None


_table = partial(Format, features=_TABLE_FEATURES, needs=None, alignments=True, shape=_TABLE_SHAPE)

JSONL = _table(
    name="jsonl",
    suffix=".jsonl",
    compression=Compression.ZSTD,
    line=_json_line,
    read=_read_json,
)
TSV = _table(
    name="tsv",
    suffix=".tsv",
    compression=Compression.ZSTD,
    line=_tab_line,
    read=_read_tabs,
    header=lambda features: "\t".join(columns(features)),
)
PARQUET = _table(name="parquet", suffix=".parquet")


_BY_SOURCE, _BY_TARGET = "p_target_given_source", "p_source_given_target"
_TAB = "chr(9)"


def _plain_words(side: str) -> str:
    return f"array_to_string(list_transform(string_split({side}, ' '), lambda x: {word('x')}), ' ')"


def _read_fields(line: str, _: FeatureSet, source: int, target: int) -> ReadRule:
    fields = line.split("\t") if "\t" in line else line.split(" ")
    return fields[source], fields[target], None


_PHRASE_PAIRS = f"""(
    SELECT {_plain_words("source")} AS source, {_plain_words("target")} AS target, uses
      FROM scored WHERE nonterminals = 0)"""
_CANDIDATES = f"""(
    SELECT source, string_agg(DISTINCT candidate, ' ' ORDER BY candidate) AS target FROM (
        SELECT source, unnest(string_split(target, ' ')) AS candidate FROM {_PHRASE_PAIRS}
    ) GROUP BY source)"""

_phrase_format = partial(Format, fixed=True, needs=LINKS, word_list=True)
_word_format = partial(_phrase_format, word_pairs=True)


def _dictionary(name: str, suffix: str, probability: str = _BY_SOURCE) -> Format:
    """Return a format whose lines contain the predicted word, the given word, and the probability."""
    words = ("target", "source") if probability == _BY_SOURCE else ("source", "target")
    return _word_format(
        name=name,
        suffix=suffix,
        compression=Compression.GZIP,
        features=(probability,),
        line=lambda _: concat_with_spaces(*words, format_number(probability)),
        read=partial(_read_fields, source=words.index("source"), target=words.index("target")),
    )


BICLEANER = _dictionary("bicleaner", ".bicleaner")
"""Dictionary for Bicleaner."""
BICLEANER_REVERSE = _dictionary("bicleaner-reverse", ".bicleaner-reverse", _BY_TARGET)
"""Dictionary for Bicleaner, in the reverse direction."""
SHORTLIST = _dictionary("shortlist", ".s2t")
"""Lexical shortlist for Marian."""
PRIORS = _word_format(
    name="priors",
    suffix=".priors",
    features=("count",),
    line=lambda _: concat(f"'LEX' || {_TAB}", "lower(source)", _TAB, "lower(target)", _TAB, format_number("count")),
    read=partial(_read_fields, source=1, target=2),
)
"""Word pair priors for eflomal."""
TTABLE = _word_format(
    name="ttable",
    suffix=".ttable",
    features=(_BY_SOURCE,),
    line=lambda _: concat("source", _TAB, "target", _TAB, format_number(f"ln({_BY_SOURCE})")),
    read=partial(_read_fields, source=0, target=1),
)
"""Translation table for fast_align."""
VMAP = _phrase_format(
    name="vmap",
    suffix=".vmap",
    features=("count",),
    line=lambda _: concat("source", _TAB, "target"),
    read=partial(_read_fields, source=0, target=1),
    rows=_CANDIDATES,
)
"""Vocabulary map for CTranslate2."""


FORMATS: dict[str, Format] = {
    format.name: format
    for format in (
        *(CDEC, MOSES, FRAGMENTS, PCFG, JSONL, TSV, PARQUET),
        *(BICLEANER, BICLEANER_REVERSE, SHORTLIST, VMAP, PRIORS, TTABLE),
    )
}
"""All formats by name. The default of a kind of grammar is the first format that supports it."""


def find_format(name: str) -> Format:
    """Return the format with this name. Raises `ValueError` if it does not exist."""
    if name not in FORMATS:
        raise ValueError(f"unknown format {name!r}: expected {', '.join(FORMATS)}")
    return FORMATS[name]


def default_format(grammar_kind: GrammarKind) -> Format:
    """Return the first format in `FORMATS` that supports the kind of grammar."""
    return next(format for format in FORMATS.values() if format.supports(grammar_kind))


def format_from_name(name: str) -> Format | None:
    """Return the format for a file name's suffix, or None. Ignores the suffix of the compression."""
    stem, _ = split_suffix(name)
    return next((format for format in FORMATS.values() if stem.endswith(format.suffix)), None)
