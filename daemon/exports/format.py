"""A format: SQL that makes a line from the columns of a scored rule, and a function that reads the line.

Columns are `source`, `target` (in the store's notation), `alignment` (links of words), the format's `shape`, the
features `FEATURES`, and `uses`, `source_uses`, `target_uses`: the rule's count, and the sums over rules with the same
source and target, in units. Discounts are subtracted from the *seen* uses of each rule: one use, or its expected uses
if these are fewer. `seen`, `source_seen`, `target_seen` and `all_seen` are their sums.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hierogram.daemon.files import Compression
from hierogram.samplers.grammar.kinds import LINKS, TRANSLATION, Notation
from hierogram.samplers.grammar.rules import NONTERMINAL


@dataclass(frozen=True, slots=True)
class Feature:
    """A feature: name, SQL expression, default weight; decoders take the log if `logarithmic`."""

    name: str
    value: str
    weight: float = 0.0
    lexical: bool = False
    logarithmic: bool = False
    shape: tuple[str, ...] = ()


def _probability(name: str, of: str, condition: str, weight: float) -> Feature:
    """Return a feature with a smoothed conditional probability (docs/model.md) [Foster, Kuhn & Johnson 2006]."""
    value = f"(uses - smoothing * seen + smoothing * {condition}_seen * ({of}_seen / all_seen)) / {condition}_uses"
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
"""All features; docs/exports.md describes them."""

SPAN, POPS = 20, 1000
"""Maximum words of a rule's span, and hypotheses popped per span, in configurations for other decoders."""
LM, WORDS, RULES, GLUE, UNKNOWN, LM_UNKNOWN = "lm", "words", "rules", "glue", "unknown", "lm_unknown"
"""Features of decoding: log probability of the target, target words, rules, glue rules, untranslated source words, and
target words unknown to the language model.
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
"""Sides of a rule in an export, with numbered nonterminals, and its count, None if format or features omit it."""


@dataclass(frozen=True, slots=True)
class Format:
    """A format by its `name`.

    `line` returns the SQL expression of a rule's line for the chosen features. `read` parses such a line; it raises
    `ValueError`, `IndexError` or `KeyError` if the line has another form. A format without both is a table of columns,
    which DuckDB writes and reads. `features` are the available features; `fixed` formats write all of them. A format
    with `alignments` shows the links of a rule's words. `shape` lists the columns it needs of `scope`, `nonterminals`,
    `source_terminals` and `target_terminals`. `order` sorts the lines, `header` precedes them, and `glue` is the
    content of the file of glue rules. `suffix` ends the file name, before the suffix of the default `compression`.
    Formats whose default is gzip or no compression refuse zstd, because their readers do not support it. `needs` is the
    property that the kind of grammar must offer (`hierogram.samplers.grammar.kinds`), or None. A format with `words`
    writes pairs of linked words in place of rules; `rows` is an SQL query of its lines. A `lexicon` omits words with
    Unicode spaces, because its readers split lines there. `configure` returns files of a decoder configuration from the
    file names of rules and glue rules, and the features.
    """

    name: str
    suffix: str
    features: tuple[str, ...]
    compression: Compression = Compression.NONE
    line: Callable[[FeatureSet], str] | None = None
    read: Callable[[str, FeatureSet], ReadRule] | None = None
    fixed: bool = False
    alignments: bool = False
    shape: tuple[str, ...] = ("nonterminals",)
    order: str = "source, target"
    header: Callable[[FeatureSet], str] | None = None
    glue: Sequence[str] = ()
    needs: str | None = TRANSLATION
    words: bool = False
    lexicon: bool = False
    rows: str | None = None
    configure: Callable[[str, str, FeatureSet], Sequence[ConfigurationFile]] | None = None

    def check_features(self, names: Sequence[str] | None) -> None:
        """Raise `ValueError` if the format cannot write one of the features, or always writes all."""
        if names is None:
            return
        if self.fixed:
            raise ValueError(f"{self.name} has fixed features: {', '.join(self.features)}")
        for name in names:
            if name not in self.features:
                raise ValueError(f"{self.name} has no feature {name!r}: expected {', '.join(self.features)}")

    def check_compression(self, compression: Compression) -> None:
        """Raise `ValueError` if the format or programs that read it do not support the compression."""
        if self.line is None and compression is not Compression.NONE:
            raise ValueError(f"{self.name} has its own compression: remove --compression")
        if compression is Compression.ZSTD and self.compression is not Compression.ZSTD:
            raise ValueError(f"readers of {self.name} do not support zstd: use gzip (.gz) or no compression")

    def supports(self, notation: Notation) -> bool:
        """Check if the format can write this kind of grammar."""
        return self.needs is None or self.needs in notation.offers

    def grammar_features(self, notation: Notation, names: Sequence[str] | None) -> tuple[str, ...] | None:
        """Return the feature names of a kind of grammar. Raises `ValueError` if the kind lacks a requested feature."""
        if LINKS in notation.offers or self.fixed:
            return None if names is None else tuple(names)
        if names is None:
            return tuple(name for name in self.features if not BY_NAME[name].lexical)
        for name in names:
            if BY_NAME[name].lexical:
                raise ValueError(notation.cannot(f"provide the feature {name}: its rules have no word links"))
        return tuple(names)

    def chosen(self, names: Sequence[str] | None) -> list[Feature]:
        """Return the written features, in the order of the format."""
        return [BY_NAME[name] for name in self.features if names is None or name in names]


def concatenated(*parts: str) -> str:
    """Return SQL that concatenates non-NULL parts by one function; each `||` would copy the text before it."""
    return f"concat({', '.join(parts)})"


def spaced(*parts: str) -> str:
    """Return SQL that concatenates non-NULL parts with spaces between them."""
    return f"concat_ws(' ', {', '.join(parts)})"


def is_nonterminal(symbol: str) -> str:
    """Return an SQL condition: the symbol is a nonterminal in the store's notation."""
    return f"(starts_with({symbol}, '[X,') AND regexp_full_match({symbol}, '{NONTERMINAL}'))"


def word(symbol: str) -> str:
    """Return SQL for the word of a terminal symbol, without the backslash of an escaped word."""
    return f"(CASE WHEN starts_with({symbol}, '\\') THEN substr({symbol}, 2) ELSE {symbol} END)"


def symbols(side: str) -> str:
    """Return SQL for the list of a side's symbols."""
    return f"(CASE WHEN {side} = '' THEN CAST([] AS VARCHAR[]) ELSE string_split({side}, ' ') END)"


def is_plain(side: str, characters: str) -> str:
    """Return an SQL condition: the side does not contain any of the characters outside the brackets of nonterminals."""
    brackets = " AND ".join(
        f"strlen({side}) - strlen(replace({side}, '{bracket}', '')) = nonterminals" for bracket in "[]"
    )
    none = f"NOT contains({side}, '[') AND NOT contains({side}, ']')"
    excluded = "".join(f" AND NOT contains({side}, '{character}')" for character in characters)
    return f"(CASE WHEN nonterminals = 0 THEN {none} ELSE {brackets} END{excluded})"


def mapped(side: str, terminal: str, nonterminal: str) -> str:
    """Return SQL for a side in which the expressions replace each terminal and nonterminal `x`."""
    return (
        f"array_to_string(list_transform({symbols(side)}, lambda x: "
        f"CASE WHEN {is_nonterminal('x')} THEN {nonterminal} ELSE {terminal} END), ' ')"
    )


def links(source: str, target: str, alignment: str) -> str:
    """Return SQL for the sorted links of a rule: links of words, and links of nonterminals with their counterparts."""
    pair = "{'i': CAST(split_part(x, '-', 1) AS INTEGER), 'j': CAST(split_part(x, '-', 2) AS INTEGER)}"
    of_words = f"list_transform(string_split({alignment}, ' '), lambda x: {pair})"
    words = f"(CASE WHEN {alignment} = '' THEN [] ELSE {of_words} END)"
    position = "CAST(list_position({side}, '[X,' || k || ']') - 1 AS INTEGER)"
    source_position, target_position = (position.format(side=f"string_split({side}, ' ')") for side in (source, target))
    gaps = f"list_transform(range(1, nonterminals + 1), lambda k: {{'i': {source_position}, 'j': {target_position}}})"
    return f"array_to_string(list_transform(list_sort(list_concat({words}, {gaps})), lambda l: l.i || '-' || l.j), ' ')"


def plain(value: str) -> str:
    """Return SQL that formats a number: integers exactly, others with six digits and a decimal point for cdec."""
    return f"plain_number({value})"


NUMBER_MACRO = """CREATE MACRO plain_number(x) AS CASE
    WHEN x = floor(x) AND abs(x) < 1e15 THEN CAST(CAST(x AS BIGINT) AS VARCHAR)
    WHEN abs(x) >= 1e-4 AND abs(x) < 999999 THEN printf('%.6g', CAST(x AS DOUBLE))
    ELSE printf('%.5e', CAST(x AS DOUBLE)) END"""
