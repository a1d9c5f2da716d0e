"""Formats of exports, and their registry `FORMATS`. docs/exports.md shows a line of each format.

The SQL expressions of features and formats use these columns of a rule:

- `source`, `target`: the sides in the store's notation
- `alignment`: the links of words
- the columns `SHAPE_COLUMNS`, such as `scope`, and the features `FEATURES`
- `uses`: the count as an integer, in units of 1/`ExportPlan.units_per_use`
- `source_uses`, `target_uses`: the sums of `uses` over the rules with the same source or target side
- `seen`: the part of `uses` that is multiplied by the discount, by default at most one use (s in docs/model.md)
- `source_seen`, `target_seen`, `all_seen`: the sums of `seen` over the rules with the same side, and over all rules
- `smoothing`: the discount (D in docs/model.md)

cdec reads any word in brackets as a nonterminal, and `|||` as the end of a field. Both are escaped with a backslash, as
in the store's own notation. Features of value 0 are omitted, because cdec takes absent features as 0. Logarithmic
features are always written.

Moses takes the logarithm of every score, so values x other than probabilities and counts are written as e^x. The rule
table is sorted as Moses' tools require. `|`, `[` and `]` in words are written as Moses' own tokenizer escapes them.
"""

import csv
import json
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

from hierogram.daemon.files import Compression, split_output_suffix
from hierogram.samplers.grammar.kinds import FRAGMENTS as TREE_FRAGMENTS
from hierogram.samplers.grammar.kinds import LINKS, TRANSLATION, GrammarKind
from hierogram.samplers.grammar.rules import NONTERMINAL


@dataclass(frozen=True, slots=True)
class Feature:
    """Feature of a rule."""

    name: str
    cdec: str
    """Name in cdec's files."""
    value: str
    """SQL expression of the value, before a logarithm is taken."""
    weight: float = 0.0
    """Default weight in decoders."""
    lexical: bool = False
    """True if the value is a lexical weight, which needs word links."""
    logarithmic: bool = False
    """True if decoders use the logarithm of the value."""


def _probability(name: str, cdec: str, event: str, condition: str, weight: float) -> Feature:
    """Return the feature p(event side | condition side), smoothed as in docs/model.md [Foster+ 2006]."""
    value = f"(uses - smoothing * seen + smoothing * {condition}_seen * ({event}_seen / all_seen)) / {condition}_uses"
    return Feature(name, cdec, value, weight, logarithmic=True)


def _indicator(name: str, cdec: str, condition: str) -> Feature:
    return Feature(name, cdec, f"CASE WHEN {condition} THEN 1 ELSE 0 END")


FEATURES = (
    _probability("p_target_given_source", "EGivenF", "target", "source", 0.28),
    _probability("p_source_given_target", "FGivenE", "source", "target", 0.35),
    Feature("lex_target_given_source", "LexEGivenF", "lex_target_given_source", 0.27, lexical=True, logarithmic=True),
    Feature("lex_source_given_target", "LexFGivenE", "lex_source_given_target", 0.3, lexical=True, logarithmic=True),
    Feature("count", "Count", "count", logarithmic=True),
    Feature("source_count", "CountF", "source_count", logarithmic=True),
    Feature("target_count", "CountE", "target_count", logarithmic=True),
    _indicator("quarter", "IsQuarter", "count <= 0.25"),
    _indicator("half", "IsHalf", "count <= 0.5"),
    _indicator("singleton", "IsSingletonFE", "count <= 1"),
    _indicator("rare", "IsRare", "count <= 3"),
    _indicator("source_singleton", "IsSingletonF", "source_count <= 1"),
    _indicator("terminals_only", "IsTerminalsOnly", "nonterminals = 0"),
    Feature("nonterminals", "Nonterminals", "nonterminals"),
    Feature("scope", "Scope", "scope"),
    Feature("source_words", "WordsF", "source_terminals"),
    Feature("target_words", "WordsE", "target_terminals"),
    _indicator("one_word", "IsOneWord", "source_terminals = 1"),
    _indicator("two_words", "IsTwoWords", "source_terminals = 2"),
    _indicator("minimal", "IsMinimal", "minimal_uses > 0"),
)
"""All features. docs/exports.md describes them."""

MAX_SPAN, POP_LIMIT = 20, 1000
"""Maximum number of words in a rule's span, and pop limit of cube pruning, in decoder configurations."""
LM, WORDS, RULES, GLUE, UNKNOWN, LM_UNKNOWN = "lm", "words", "rules", "glue", "unknown", "lm_unknown"
"""Features of decoding: language model log probability, and numbers of target words and rules.
`UNKNOWN` counts untranslated source words, `LM_UNKNOWN` target words unknown to the language model."""
DEFAULT_WEIGHTS = {feature.name: feature.weight for feature in FEATURES if feature.weight}
DEFAULT_WEIGHTS |= {LM: 0.7, WORDS: 1.84, RULES: -0.28, GLUE: 0.26, UNKNOWN: -7.0, LM_UNKNOWN: 0.0}
"""Default weights with a language model. A feature without an entry has weight 0."""

BY_NAME = {feature.name: feature for feature in FEATURES}

Features = Sequence[Feature]

ReadRule = tuple[str, str, float | None]
"""Source side, target side and count of a rule. The count is None if the export has no counts."""


@dataclass(frozen=True, slots=True)
class Format:
    """Format of a rule file. A format without `line` and `read` is Parquet, which DuckDB writes and reads."""

    name: str
    features: tuple[str, ...]
    """Names of the features that the format can write, in the order of its columns."""
    suffix: str = ""
    """File name suffix, which precedes the suffix of the compression. By default a dot and the name."""
    compression: Compression = Compression.NONE
    """Default compression. zstd is only allowed if it is the default."""
    line: Callable[[Features], str] | None = None
    """SQL expression of a rule's line, given the features to write."""
    read: Callable[[str, Features], ReadRule] | None = None
    """Parser of a line. Raises `ValueError`, `IndexError` or `KeyError` if the line is not in this format."""
    fixed: bool = False
    """Always write all features, and omit the word links of rules."""
    order: str = "source, target"
    """Columns by which rules are sorted, or `line` to sort the written lines."""
    header: Callable[[Features], str] | None = None
    """First line of the file, which is not a rule."""
    glue: Sequence[str] = ()
    """Lines of the file of glue rules."""
    needs: str | None = TRANSLATION
    """Capability that the kind of grammar must offer (`hierogram.samplers.grammar.kinds`)."""
    word_pairs: bool = False
    """Write pairs of linked words instead of rules."""
    word_list: bool = False
    """Omit words with Unicode spaces, because the tools that read this list split lines there."""
    rows: str | None = None
    """SQL query of the rows to write instead of the scored rules."""
    configure: Callable[[str, str, Features], dict[str, list[str]]] | None = None
    """Lines of each configuration file of a decoder, by file name suffix.

    The arguments are the file names of rules and glue rules, and the features.
    """

    def __post_init__(self) -> None:
        object.__setattr__(self, "suffix", self.suffix or f".{self.name}")

    def check_features(self, names: Sequence[str] | None) -> None:
        """Raise `ValueError` if `names` is given, but the format has fixed features or lacks one of the names."""
        if names is None:
            return
        if self.fixed:
            raise ValueError(f"{self.name} has fixed features: {', '.join(self.features)}")
        for name in names:
            if name not in self.features:
                raise ValueError(f"{self.name} has no feature {name!r}: expected {', '.join(self.features)}")

    def check_compression(self, compression: Compression) -> None:
        """Raise `ValueError` if the format, or the programs that read it, do not support the compression."""
        if self.line is None and compression is not Compression.NONE:
            raise ValueError(f"{self.name} has its own compression: remove --compression or {compression.suffix}")
        if compression is Compression.ZSTD and self.compression is not Compression.ZSTD:
            raise ValueError(f"readers of {self.name} do not support zstd: use gzip (.gz) or no compression")

    def supports(self, grammar_kind: GrammarKind) -> bool:
        """Check if the format can write this kind of grammar."""
        return self.needs is None or self.needs in grammar_kind.capabilities

    def grammar_features(self, grammar_kind: GrammarKind, names: tuple[str, ...] | None) -> tuple[str, ...] | None:
        """Return the features to write (None for all). Raises `ValueError` if the grammar lacks a feature."""
        if LINKS in grammar_kind.capabilities or self.fixed:
            return names
        if names is None:
            return tuple(name for name in self.features if not BY_NAME[name].lexical)
        for name in names:
            if BY_NAME[name].lexical:
                raise ValueError(grammar_kind.cannot(f"provide the feature {name}: its rules have no word links"))
        return names


def concat(*parts: str, separator: str = "") -> str:
    """Return SQL that concatenates non-NULL parts. `||` would copy the text for each part."""
    return f"concat_ws('{separator}', {', '.join(parts)})"


def is_nonterminal(symbol: str) -> str:
    """Return SQL that checks if a symbol is a nonterminal in the store's notation."""
    return f"(starts_with({symbol}, '[X,') AND regexp_full_match({symbol}, '{NONTERMINAL}'))"


def word(symbol: str) -> str:
    """Return SQL for the word of a terminal symbol, without the backslash of an escaped word."""
    return f"(CASE WHEN starts_with({symbol}, '\\') THEN substr({symbol}, 2) ELSE {symbol} END)"


def symbols(side: str) -> str:
    """Return SQL for the list of a side's symbols."""
    return f"(CASE WHEN {side} = '' THEN CAST([] AS VARCHAR[]) ELSE string_split({side}, ' ') END)"


def needs_no_escape(side: str, characters: str) -> str:
    """Return SQL that checks if a side has no `characters`, and no brackets except in nonterminals."""
    brackets = " AND ".join(
        f"strlen({side}) - strlen(replace({side}, '{bracket}', '')) = nonterminals" for bracket in "[]"
    )
    no_brackets = f"NOT contains({side}, '[') AND NOT contains({side}, ']')"
    excluded = "".join(f" AND NOT contains({side}, '{character}')" for character in characters)
    return f"(CASE WHEN nonterminals = 0 THEN {no_brackets} ELSE {brackets} END{excluded})"


def map_symbols(side: str, terminal: str, nonterminal: str) -> str:
    """Return SQL that maps each symbol `x` of a side to the expression `terminal` or `nonterminal`."""
    return (
        f"array_to_string(list_transform({symbols(side)}, lambda x: "
        f"CASE WHEN {is_nonterminal('x')} THEN {nonterminal} ELSE {terminal} END), ' ')"
    )


NUMBER_MACRO = """CREATE MACRO format_number(x) AS CASE
    WHEN x = floor(x) AND abs(x) < 1e15 THEN CAST(CAST(x AS BIGINT) AS VARCHAR)
    WHEN abs(x) >= 1e-4 AND abs(x) < 999999 THEN printf('%.6g', CAST(x AS DOUBLE))
    ELSE printf('%.5e', CAST(x AS DOUBLE)) END"""
"""SQL macro that formats a number: integers below 1e15 exactly, others with six significant digits."""

_ALL_FEATURES = tuple(feature.name for feature in FEATURES)
_LN_10 = math.log(10)
_UNKNOWN_VALUE = -100
"""Score that Moses gives a word without a rule."""

_NEEDS_ESCAPE = "(x = '|||' OR (starts_with(x, '[') AND ends_with(x, ']')))"


def _cdec_side(side: str) -> str:
    escaped = map_symbols(side, f"CASE WHEN {_NEEDS_ESCAPE} THEN '\\' || x ELSE x END", "x")
    return f"CASE WHEN {needs_no_escape(side, '|')} THEN {side} ELSE {escaped} END"


def _cdec_line(features: Features) -> str:
    values = []
    for feature in features:
        if feature.logarithmic:
            values += [f"' {feature.cdec}='", f"format_number(log10({feature.name}))"]
        else:
            named = f"' {feature.cdec}=' || {feature.name}"
            values.append(f"CASE WHEN {feature.name} = 0 THEN '' ELSE {named} END")
    linked = "CASE WHEN alignment = '' THEN '' ELSE ' ||| ' || alignment END"
    sides = ("'[X] ||| '", _cdec_side("source"), "' ||| '", _cdec_side("target"), "' |||'")
    return concat(*sides, *values, linked)


def _configure_cdec(grammar: str, _: str, features: Features) -> dict[str, list[str]]:
    # Convert the weights, because cdec takes logarithms to base 10 and counts a word as -1 / ln 10.
    weights = {
        feature.cdec: DEFAULT_WEIGHTS.get(feature.name, 0.0) * (_LN_10 if feature.logarithmic else 1.0)
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
    return {".ini": lines, ".weights": [f"{name} {value:.6g}" for name, value in weights.items()]}


def _read_cdec(line: str, _: Features) -> ReadRule:
    fields = line.split(" ||| ")
    counts = [named.removeprefix("Count=") for named in fields[3].split(" ") if named.startswith("Count=")]
    return fields[1], fields[2], float(10.0 ** float(counts[0])) if counts else None


CDEC = Format(
    name="cdec",
    compression=Compression.GZIP,
    features=_ALL_FEATURES,
    line=_cdec_line,
    read=_read_cdec,
    configure=_configure_cdec,
)

_GAP = "[X][X]"
"""Nonterminal in a Moses rule table. Links pair the nonterminals, so they need no numbers."""

MOSES_SCORES = ("p_source_given_target", "lex_source_given_target", "p_target_given_source", "lex_target_given_source")
"""First scores of a Moses rule table, in order."""


def _moses_side(side: str) -> str:
    gaps = f"regexp_replace({{}}, '\\[X,[0-9]+\\]', '{_GAP}', 'g')"
    escaped = f"replace(replace(replace({word('x')}, '|', '&#124;'), '[', '&#91;'), ']', '&#93;')"
    slow = map_symbols(side, escaped, gaps.format("x"))
    quick = f"CASE WHEN nonterminals = 0 THEN {side} ELSE {gaps.format(side)} END"
    return f"CASE WHEN {needs_no_escape(side, '|' + chr(92))} THEN {quick} ELSE {slow} END"


def _moses_links() -> str:
    """Return SQL for a rule's sorted links, including links between nonterminals of the same number."""
    pair = "{'i': CAST(split_part(x, '-', 1) AS INTEGER), 'j': CAST(split_part(x, '-', 2) AS INTEGER)}"
    parsed = f"list_transform(string_split(alignment, ' '), lambda x: {pair})"
    words = f"(CASE WHEN alignment = '' THEN [] ELSE {parsed} END)"
    position = "CAST(list_position(string_split({}, ' '), '[X,' || k || ']') - 1 AS INTEGER)"
    i, j = position.format("source"), position.format("target")
    gaps = f"list_transform(range(1, nonterminals + 1), lambda k: {{'i': {i}, 'j': {j}}})"
    return f"array_to_string(list_transform(list_sort(list_concat({words}, {gaps})), lambda l: l.i || '-' || l.j), ' ')"


def _moses_line(features: Features) -> str:
    scores = (f"format_number({f.name if f.logarithmic else f'exp({f.name})'})" for f in features)
    counts = (f"format_number({name})" for name in ("target_count", "source_count", "count"))
    bars = "' ||| '"
    sides = (_moses_side("source"), "' [X] ||| '", _moses_side("target"), "' [X] ||| '")
    fields = (concat(*scores, separator=" "), bars, _moses_links(), bars, concat(*counts, separator=" "))
    return concat(*sides, *fields, "' ||| |||'")


def _read_moses(line: str, _: Features) -> ReadRule:
    source, target, _scores, alignment, counts, _rest = line.split(" ||| ", 5)
    left, right = source.split(" ")[:-1], target.split(" ")[:-1]
    # Keep one link per symbol, because only nonterminals are looked up, and each nonterminal has one link.
    linked = {int(i): int(j) for i, j in (link.split("-") for link in alignment.split())}
    gaps = [position for position, symbol in enumerate(left) if symbol == _GAP]
    for number, position in enumerate(gaps, 1):
        left[position] = right[linked[position]] = f"[X,{number}]"
    return " ".join(left), " ".join(right), float(counts.split(" ")[2])


def _configure_moses(grammar: str, glue: str, features: Features) -> dict[str, list[str]]:
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
    return {".ini": lines}


MOSES = Format(
    name="moses",
    compression=Compression.GZIP,
    features=(*MOSES_SCORES, *(name for name in _ALL_FEATURES if name not in MOSES_SCORES)),
    line=_moses_line,
    read=_read_moses,
    order="line",
    configure=_configure_moses,
    glue=(
        "<s> [X] ||| <s> [S] ||| 1 ||| 0-0 ||| 0",
        "[X][S] </s> [X] ||| [X][S] </s> [S] ||| 1 ||| 0-0 1-1 ||| 0",
        "[X][S] [X][X] [X] ||| [X][S] [X][X] [S] ||| 2.718 ||| 0-0 1-1 ||| 0",
    ),
)


# A piece `(NN)` of a fragment is a frontier node, `(DT` is an inner label, and other pieces, such as `the)`, are words.
_FRONTIER = "piece LIKE '(%' AND piece LIKE '%)'"
_FLAT = f"""array_to_string([
    CASE WHEN {_FRONTIER} THEN '[' || rtrim(piece[2:], ')') || ']'
         WHEN piece LIKE '[%' OR piece LIKE '\\%' THEN '\\' || rtrim(piece, ')')
         ELSE rtrim(piece, ')') END
    FOR piece IN string_split(target, ' ') IF piece NOT LIKE '(%' OR {_FRONTIER}], ' ')"""


def _read_fragment(line: str, _: Features) -> ReadRule:
    # Split from the end, because a word of the fragment may be `|||`.
    fragment, count, _share = line.rsplit(" ||| ", 2)
    return _root(fragment), fragment, float(count)


def _read_flat(line: str, _: Features) -> ReadRule:
    # Search for a round bracket, which only the fragment contains, because words may be `|||`.
    rule_and_values, fragment = line.split(" ||| (", 1)
    _rule, values = rule_and_values.rsplit(" ||| ", 1)
    fragment = f"({fragment}"
    return _root(fragment), fragment, float(values.split(" ")[1])


def _root(fragment: str) -> str:
    return fragment[1:].split(" ", 1)[0]


_tree_format = partial(
    Format, compression=Compression.ZSTD, features=("p_target_given_source", "count"), fixed=True, needs=TREE_FRAGMENTS
)

FRAGMENTS = _tree_format(
    name="fragments",
    line=lambda _: "target || ' ||| ' || format_number(count) || ' ||| ' || format_number(p_target_given_source)",
    read=_read_fragment,
)
PCFG = _tree_format(
    name="pcfg",
    line=lambda _: (
        f"'[' || source || '] ||| ' || {_FLAT} || ' ||| ' || format_number(p_target_given_source)"
        " || ' ' || format_number(count) || ' ||| ' || target"
    ),
    read=_read_flat,
)

_RULE_COLUMNS = ("source", "target", "alignment", "scope", "nonterminals", "source_count", "target_count")
_TEXT_COLUMNS = ("source", "target", "alignment")


def table_columns(features: Features) -> list[str]:
    """Return the columns of the formats jsonl, tsv and parquet, in order."""
    return [*_RULE_COLUMNS, *(feature.name for feature in features if feature.name not in _RULE_COLUMNS)]


def _json_line(features: Features) -> str:
    parts: list[str] = []
    for name in table_columns(features):
        value = f"CAST(to_json({name}) AS VARCHAR)" if name in _TEXT_COLUMNS else f"CAST({name} AS VARCHAR)"
        parts += [f"""'{", " if parts else "{"}"{name}": '""", value]
    return concat(*parts, "'}'")


def _read_json(line: str, _: Features) -> ReadRule:
    rule = json.loads(line)
    return rule["source"], rule["target"], rule.get("count")


def _tab_line(features: Features) -> str:
    values = []
    for name in table_columns(features):
        if name in _TEXT_COLUMNS:
            # Quote values that contain a quotation mark, or a carriage return, which readers treat as a line end.
            needs_quotes = " OR ".join(f"contains({name}, {character})" for character in ("'\"'", "chr(13)"))
            values.append(f"""CASE WHEN {needs_quotes} THEN '"' || replace({name}, '"', '""') || '"' ELSE {name} END""")
        else:
            values.append(f"CAST({name} AS VARCHAR)")
    return concat(*values, separator="\t")


def _read_tabs(line: str, features: Features) -> ReadRule:
    fields = next(csv.reader([line], delimiter="\t")) if '"' in line else line.split("\t")
    values = dict(zip(table_columns(features), fields, strict=True))
    return values["source"], values["target"], float(values["count"]) if "count" in values else None


_table = partial(Format, features=_ALL_FEATURES, needs=None)

JSONL = _table(name="jsonl", compression=Compression.ZSTD, line=_json_line, read=_read_json)
TSV = _table(
    name="tsv",
    compression=Compression.ZSTD,
    line=_tab_line,
    read=_read_tabs,
    header=lambda features: "\t".join(table_columns(features)),
)
PARQUET = _table(name="parquet")

_GIVEN_SOURCE, _GIVEN_TARGET = "p_target_given_source", "p_source_given_target"
_TAB = "chr(9)"


def _plain_words(side: str) -> str:
    return f"array_to_string(list_transform(string_split({side}, ' '), lambda x: {word('x')}), ' ')"


def _read_fields(line: str, _: Features, source: int, target: int) -> ReadRule:
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


def _dictionary(name: str, probability: str = _GIVEN_SOURCE, suffix: str = "") -> Format:
    """Return a format whose lines contain the predicted word, the given word, and the probability."""
    words = ("target", "source") if probability == _GIVEN_SOURCE else ("source", "target")
    return _word_format(
        name=name,
        suffix=suffix,
        compression=Compression.GZIP,
        features=(probability,),
        line=lambda _: concat(*words, f"format_number({probability})", separator=" "),
        read=partial(_read_fields, source=words.index("source"), target=words.index("target")),
    )


PRIORS = _word_format(
    name="priors",
    features=("count",),
    line=lambda _: concat(f"'LEX' || {_TAB}", "lower(source)", _TAB, "lower(target)", _TAB, "format_number(count)"),
    read=partial(_read_fields, source=1, target=2),
)
"""Word pair priors for eflomal."""
TTABLE = _word_format(
    name="ttable",
    features=(_GIVEN_SOURCE,),
    line=lambda _: concat("source", _TAB, "target", _TAB, f"format_number(ln({_GIVEN_SOURCE}))"),
    read=partial(_read_fields, source=0, target=1),
)
"""Translation table for fast_align."""
VMAP = _phrase_format(
    name="vmap",
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
        _dictionary("bicleaner"),
        _dictionary("bicleaner-reverse", _GIVEN_TARGET),
        # Lexical shortlist for Marian.
        _dictionary("shortlist", suffix=".s2t"),
        *(VMAP, PRIORS, TTABLE),
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
    """Return the format whose suffix a file name has, before any suffix of a compression, or None."""
    stem, _ = split_output_suffix(name)
    return next((format for format in FORMATS.values() if stem.endswith(format.suffix)), None)
