"""Export formats: SQL that writes a scored rule as a line, and functions that read the line.

The expressions use these columns of a rule:

- `source`, `target`: the sides in the store's notation
- `alignment`: the links of words
- the shape columns of the format, such as `scope`, and the features `FEATURES`
- `uses`: the count as an integer, in units of 1/`ExportPlan.units_per_use`
- `source_uses`, `target_uses`: the sums of `uses` over the rules with the same source or target side
- `seen`: the part of `uses` that is multiplied by the discount, by default at most one use (s in docs/model.md)
- `source_seen`, `target_seen`, `all_seen`: the sums of `seen` over the rules with the same side, and over all rules
- `smoothing`: the discount (D in docs/model.md)
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hierogram.daemon.files import Compression
from hierogram.samplers.grammar.kinds import LINKS, TRANSLATION, GrammarKind
from hierogram.samplers.grammar.rules import NONTERMINAL


@dataclass(frozen=True, slots=True)
class Feature:
    """Feature of a rule. `value` is an SQL expression. Decoders use the logarithm of a `logarithmic` feature."""

    name: str
    value: str
    weight: float = 0.0
    lexical: bool = False
    logarithmic: bool = False
    shape: tuple[str, ...] = ()


def _probability(name: str, event: str, condition: str, weight: float) -> Feature:
    """Return the feature of a smoothed probability, as in docs/model.md [Foster, Kuhn & Johnson 2006]."""
    value = f"(uses - smoothing * seen + smoothing * {condition}_seen * ({event}_seen / all_seen)) / {condition}_uses"
    return Feature(name, value, weight, logarithmic=True)


def _indicator(name: str, condition: str, *shape: str) -> Feature:
    return Feature(name, f"CASE WHEN {condition} THEN 1 ELSE 0 END", shape=shape)


FEATURES = (
    _probability("p_target_given_source", "target", "source", 0.25),
    _probability("p_source_given_target", "source", "target", 0.2),
    Feature("lex_target_given_source", "lex_target_given_source", 0.15, lexical=True, logarithmic=True),
    Feature("lex_source_given_target", "lex_source_given_target", 0.1, lexical=True, logarithmic=True),
    *(Feature(count, count, logarithmic=True) for count in ("count", "source_count", "target_count")),
    _indicator("quarter", "count <= 0.25"),
    _indicator("half", "count <= 0.5"),
    _indicator("singleton", "count <= 1"),
    _indicator("rare", "count <= 3"),
    _indicator("source_singleton", "source_count <= 1"),
    _indicator("terminals_only", "nonterminals = 0", "nonterminals"),
    Feature("nonterminals", "nonterminals", shape=("nonterminals",)),
    Feature("scope", "scope", shape=("scope",)),
    Feature("source_words", "source_terminals", shape=("source_terminals",)),
    Feature("target_words", "target_terminals", shape=("target_terminals",)),
    _indicator("one_word", "source_terminals = 1", "source_terminals"),
    _indicator("two_words", "source_terminals = 2", "source_terminals"),
    _indicator("minimal", "minimal_uses > 0", "minimal_uses"),
)
"""All features. docs/exports.md describes them."""

MAX_SPAN, POP_LIMIT = 20, 1000
"""Maximum number of words in a rule's span, and pop limit of cube pruning, in decoder configurations."""
LM, WORDS, RULES, GLUE, UNKNOWN, LM_UNKNOWN = "lm", "words", "rules", "glue", "unknown", "lm_unknown"
"""Features of decoding: language model log probability, and numbers of target words, rules, glue
rules, untranslated source words, and target words unknown to the language model.
"""
DEFAULT_WEIGHTS = {feature.name: feature.weight for feature in FEATURES if feature.weight} | {
    LM: 0.35,
    WORDS: 1.0,
    RULES: 0.0,
    GLUE: -0.1,
    UNKNOWN: -5.0,
    LM_UNKNOWN: -1.0,
}
"""Default weights. A feature without an entry has weight 0."""

BY_NAME = {feature.name: feature for feature in FEATURES}

FeatureSet = Sequence[Feature]

ConfigurationFile = tuple[str, Sequence[str]]
"""File name suffix and lines of a configuration file."""

ReadRule = tuple[str, str, float | None]
"""Source side, target side and count of a rule in an export. The count is None if the export has no counts."""


@dataclass(frozen=True, slots=True)
class Format:
    """Format of a rule file. A format without `line` and `read` is Parquet, which DuckDB writes and reads."""

    name: str
    suffix: str
    """File name suffix, which precedes the suffix of the compression."""
    features: tuple[str, ...]
    compression: Compression = Compression.NONE
    """Default compression. zstd is only allowed if it is the default."""
    line: Callable[[FeatureSet], str] | None = None
    """Returns the SQL expression of a rule's line for the chosen features."""
    read: Callable[[str, FeatureSet], ReadRule] | None = None
    """Parses a line. Raises `ValueError`, `IndexError` or `KeyError` if the line does not have the format."""
    fixed: bool = False
    """Always write all features."""
    alignments: bool = False
    """Write the word links of rules."""
    shape: tuple[str, ...] = ("nonterminals",)
    """Shape columns that the format needs."""
    order: str = "source, target"
    """Columns by which rules are sorted, or `line` to sort the written lines."""
    header: Callable[[FeatureSet], str] | None = None
    glue: Sequence[str] = ()
    """Lines of the file of glue rules."""
    needs: str | None = TRANSLATION
    """Capability that the kind of grammar must offer (`hierogram.samplers.grammar.kinds`)."""
    word_pairs: bool = False
    """Write pairs of linked words instead of rules."""
    word_list: bool = False
    """List of words or phrases for other tools. Omit words with Unicode spaces, where these tools split lines."""
    rows: str | None = None
    """SQL query of the rows to write instead of the scored rules."""
    configure: Callable[[str, str, FeatureSet], Sequence[ConfigurationFile]] | None = None
    """Returns a decoder configuration, given the file names of rules and glue rules, and the features."""

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

    def grammar_features(self, grammar_kind: GrammarKind, names: Sequence[str] | None) -> tuple[str, ...] | None:
        """Return the features to write (None for all). Raises `ValueError` if the grammar lacks a feature."""
        if LINKS in grammar_kind.capabilities or self.fixed:
            return None if names is None else tuple(names)
        if names is None:
            return tuple(name for name in self.features if not BY_NAME[name].lexical)
        for name in names:
            if BY_NAME[name].lexical:
                raise ValueError(grammar_kind.cannot(f"provide the feature {name}: its rules have no word links"))
        return tuple(names)


def concat(*parts: str) -> str:
    """Return SQL that concatenates non-NULL parts. Unlike `||`, `concat` does not copy the text for each part."""
    return f"concat({', '.join(parts)})"


def concat_with_spaces(*parts: str) -> str:
    """Return SQL that concatenates non-NULL parts with spaces between them."""
    return f"concat_ws(' ', {', '.join(parts)})"


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


def links(source: str, target: str, alignment: str) -> str:
    """Return SQL for the sorted links of a rule, including links between nonterminals with the same number."""
    pair = "{'i': CAST(split_part(x, '-', 1) AS INTEGER), 'j': CAST(split_part(x, '-', 2) AS INTEGER)}"
    parsed = f"list_transform(string_split({alignment}, ' '), lambda x: {pair})"
    words = f"(CASE WHEN {alignment} = '' THEN [] ELSE {parsed} END)"
    position = "CAST(list_position({side}, '[X,' || k || ']') - 1 AS INTEGER)"
    source_position, target_position = (position.format(side=f"string_split({side}, ' ')") for side in (source, target))
    gaps = f"list_transform(range(1, nonterminals + 1), lambda k: {{'i': {source_position}, 'j': {target_position}}})"
    return f"array_to_string(list_transform(list_sort(list_concat({words}, {gaps})), lambda l: l.i || '-' || l.j), ' ')"


def format_number(value: str) -> str:
    """Return SQL that formats a number: integers below 1e15 exactly, other numbers with six significant digits."""
    return f"format_number({value})"


NUMBER_MACRO = """CREATE MACRO format_number(x) AS CASE
    WHEN x = floor(x) AND abs(x) < 1e15 THEN CAST(CAST(x AS BIGINT) AS VARCHAR)
    WHEN abs(x) >= 1e-4 AND abs(x) < 999999 THEN printf('%.6g', CAST(x AS DOUBLE))
    ELSE printf('%.5e', CAST(x AS DOUBLE)) END"""
