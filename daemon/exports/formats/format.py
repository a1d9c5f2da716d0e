"""A format: how a rule becomes a line, in SQL over the columns of a scored rule, and how a line is read.

The columns are `source`, `target` (in the store's notation), `alignment` (links of words), those of the format's shape,
the values of `FEATURES`, and `uses`, `source_uses`, `target_uses` (its count, and the sums over the rules with that
side, in units). `seen`, `source_seen`, `target_seen` and `all_seen` are the same of what discounts are taken from: a
use of each rule, less where it is expected to be used less than once.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hierogram.daemon.compressing import Compression
from hierogram.samplers.grammar.kinds import LINKS, TRANSLATION, Notation
from hierogram.samplers.grammar.rules import NONTERMINAL


@dataclass(frozen=True, slots=True)
class Feature:
    """A value of a rule: its name, what it is, how it is computed, and what it weighs where nobody has tuned it.

    Decoders take the logarithm of what is `logarithmic`, and weigh other values as they are. `shape` are the columns of
    a rule's shape that it is computed from.
    """

    name: str
    meaning: str
    value: str
    weight: float = 0.0
    lexical: bool = False
    logarithmic: bool = False
    shape: tuple[str, ...] = ()


def _probability(name: str, of: str, given: str, weight: float) -> Feature:
    """Return a share of the counts with one side, less the discounts; their mass goes where the other side is seen.

    See `docs/model.md`, Smoothed probabilities [Foster, Kuhn & Johnson 2006].
    """
    value = f"(uses - smoothing * seen + smoothing * {given}_seen * ({of}_seen / all_seen)) / {given}_uses"
    return Feature(name, f"share of the counts with that {given} side, smoothed", value, weight, logarithmic=True)


def _lexical(name: str, side: str, weight: float) -> Feature:
    return Feature(name, f"lexical weight of the {side} words", name, weight, lexical=True, logarithmic=True)


def _at_most(name: str, bound: str, count: str = "count", of: str = "its count") -> Feature:
    return Feature(name, f"1 where {of} is {bound} at most", f"CASE WHEN {count} <= {bound} THEN 1 ELSE 0 END")


def _of_words(name: str, number: int, said: str) -> Feature:
    value = f"CASE WHEN source_terminals = {number} THEN 1 ELSE 0 END"
    return Feature(name, f"1 where its source side has {said}", value, shape=("source_terminals",))


FEATURES = (
    _probability("p_target_given_source", "target", "source", 0.25),
    _probability("p_source_given_target", "source", "target", 0.2),
    _lexical("lex_target_given_source", "target", 0.15),
    _lexical("lex_source_given_target", "source", 0.1),
    Feature("count", "how much it counts, by the kind of grammar that is exported", "count", logarithmic=True),
    Feature("source_count", "sum of the counts with that source side", "source_count", logarithmic=True),
    Feature("target_count", "sum of the counts with that target side", "target_count", logarithmic=True),
    _at_most("quarter", "0.25"),
    _at_most("half", "0.5"),
    _at_most("singleton", "1"),
    _at_most("rare", "3"),
    _at_most("source_singleton", "1", "source_count", "the count of its source side"),
    Feature(
        "terminals_only",
        "1 where it has no nonterminal",
        "CASE WHEN nonterminals = 0 THEN 1 ELSE 0 END",
        shape=("nonterminals",),
    ),
    Feature("nonterminals", "nonterminals on a side", "nonterminals", shape=("nonterminals",)),
    Feature("scope", "k, where it parses in O(n^k)", "scope", shape=("scope",)),
    Feature("source_words", "words of the source side", "source_terminals", shape=("source_terminals",)),
    Feature("target_words", "words of the target side", "target_terminals", shape=("target_terminals",)),
    _of_words("one_word", 1, "one word"),
    _of_words("two_words", 2, "two words"),
    Feature(
        "minimal",
        "1 where minimal derivations use it",
        "CASE WHEN minimal_uses > 0 THEN 1 ELSE 0 END",
        shape=("minimal_uses",),
    ),
    Feature("glue", "1 for glue rules, which stand in a file of their own; here 0", "0"),
)

SPAN, POPS = 20, 1000
"""Words that a rule may cover, and places that are popped of each span, in configurations for other decoders."""
LM, WORDS, RULES, GLUE, UNKNOWN, LM_UNKNOWN = "lm", "words", "rules", "glue", "unknown", "lm_unknown"
"""What decoding counts: the log probability of the target, its words, rules, parts put together from left to right,
source words passed through, target words that the language model does not know."""
DEFAULT_WEIGHTS = {feature.name: feature.weight for feature in FEATURES if feature.weight} | {
    LM: 0.35,
    WORDS: 1.0,
    RULES: 0.0,
    GLUE: -0.1,
    UNKNOWN: -5.0,
    LM_UNKNOWN: -1.0,
}
"""Weights where nobody has tuned them; features that are not named weigh nothing."""

BY_NAME = {feature.name: feature for feature in FEATURES}


Chosen = Sequence[Feature]

ConfigurationFile = tuple[str, Sequence[str]]
"""What ends its name, and its lines."""


@dataclass(frozen=True, slots=True)
class ReadRule:
    """A rule as an export writes it; the count is None where the format or the choice of features leaves it out.

    Its sides set it apart from all others: nonterminals that are linked have the same number on both.
    """

    source: str
    target: str
    count: float | None


@dataclass(frozen=True, slots=True)
class Format:
    """A format by its `name`.

    `line` makes the SQL expression of a rule's line from the chosen features. `read` reads such a line, given the
    chosen features; raises `ValueError`, `IndexError` or `KeyError` where it is none. A format without them is a table
    of columns, which the scratch database writes and reads itself. `features` are those that may be chosen; with
    `fixed` all are written. With `alignments` it shows which words of a rule are linked. `shape` are the columns that
    it needs of `scope`, `nonterminals`, `source_terminals` and `target_terminals`. `order` sorts the lines,
    `header` comes first, `glue` is the lines of a file of glue rules. `suffix` ends the
    names of files, before that of the compression; `compression` is the default. Programs that read a format whose
    default is gzip or none cannot read zstd, so such files are never written. `needs` is what a kind of grammar has to
    offer (`hierogram.samplers.grammar.kinds`) for it to be written so; None: nothing. With `words` its lines are pairs
    of linked words and not rules; `rows` is an SQL query of the lines' content, if that is not each rule. A `lexicon`
    leaves out words that contain Unicode spaces, since its readers divide lines there. `configure` makes files of a
    decoder's configuration from the names of the files of rules (None: they come with each sentence) and of glue rules
    (None: there are none), and the features.
    """

    name: str
    meaning: str
    suffix: str
    compression: Compression
    features: tuple[str, ...]
    line: Callable[[Chosen], str] | None = None
    read: Callable[[str, Chosen], ReadRule] | None = None
    fixed: bool = False
    alignments: bool = False
    shape: tuple[str, ...] = ("nonterminals",)
    order: str = "source, target"
    header: Callable[[Chosen], str] | None = None
    glue: Sequence[str] = ()
    needs: str | None = TRANSLATION
    words: bool = False
    lexicon: bool = False
    rows: str | None = None
    configure: Callable[[str | None, str | None, Chosen], Sequence[ConfigurationFile]] | None = None

    def check_features(self, names: Sequence[str] | None) -> None:
        """Raise `ValueError` where the format cannot write a feature, or leaves no choice."""
        if names is None:
            return
        if self.fixed:
            raise ValueError(f"the features of {self.name} are fixed: {', '.join(self.features)}")
        for name in names:
            if name not in self.features:
                raise ValueError(f"{self.name} has no feature {name!r}; there are {', '.join(self.features)}")

    def check_compression(self, compression: Compression) -> None:
        """Raise `ValueError` if programs that read the format cannot read the compression."""
        if compression is Compression.ZSTD and self.compression is not Compression.ZSTD:
            raise ValueError(f"programs that read {self.name} cannot read zstd: use gzip (.gz) or no compression")

    def serves(self, notation: Notation) -> bool:
        """Return whether the format can write grammars of the kind."""
        return self.needs is None or self.needs in notation.offers

    def of_grammar(self, notation: Notation, names: Sequence[str] | None) -> tuple[str, ...] | None:
        """Return the names of the features to write of a kind of grammar; lexical weights need linked words.

        Raises `ValueError` where the kind has no such feature.
        """
        if LINKS in notation.offers or self.fixed:
            return None if names is None else tuple(names)
        if names is None:
            return tuple(name for name in self.features if not BY_NAME[name].lexical)
        for name in names:
            if BY_NAME[name].lexical:
                raise ValueError(notation.cannot(f"give the feature {name}: its rules have no links of words"))
        return tuple(names)

    def chosen(self, names: Sequence[str] | None) -> list[Feature]:
        """Return the features that are written, in the format's order."""
        return [BY_NAME[name] for name in self.features if names is None or name in names]


ESCAPED = r"\\"[:1]


def concatenated(*parts: str) -> str:
    """One text of the parts, none of which is NULL; by one function, since each `||` copies all that is before it."""
    return f"concat({', '.join(parts)})"


def spaced(*parts: str) -> str:
    """One text of the parts, none of which is NULL, with spaces between them."""
    return f"concat_ws(' ', {', '.join(parts)})"


def is_nonterminal(symbol: str) -> str:
    """Return whether the symbol (an SQL expression) is a nonterminal in the store's notation."""
    return f"(starts_with({symbol}, '[X,') AND regexp_full_match({symbol}, '{NONTERMINAL}'))"


def word(symbol: str) -> str:
    """Return the word that a terminal symbol stands for: the backslash before an odd one taken off."""
    return f"(CASE WHEN starts_with({symbol}, '{ESCAPED}') THEN substr({symbol}, 2) ELSE {symbol} END)"


def symbols(side: str) -> str:
    """Return the side's symbols as a list."""
    return f"(CASE WHEN {side} = '' THEN CAST([] AS VARCHAR[]) ELSE string_split({side}, ' ') END)"


def is_plain(side: str, characters: str) -> str:
    """Return whether none of the characters is in the side but for the brackets of its nonterminals."""
    own = " AND ".join(f"strlen({side}) - strlen(replace({side}, '{bracket}', '')) = nonterminals" for bracket in "[]")
    none = f"NOT contains({side}, '[') AND NOT contains({side}, ']')"
    others = "".join(f" AND NOT contains({side}, '{character}')" for character in characters)
    return f"(CASE WHEN nonterminals = 0 THEN {none} ELSE {own} END{others})"


def mapped(side: str, terminal: str, nonterminal: str) -> str:
    """Return the side with every symbol `x` written as the expressions say."""
    return (
        f"array_to_string(list_transform({symbols(side)}, lambda x: "
        f"CASE WHEN {is_nonterminal('x')} THEN {nonterminal} ELSE {terminal} END), ' ')"
    )


def links(source: str, target: str, alignment: str) -> str:
    """Return the links of a rule as text, sorted: those of its words, and of its nonterminals, each with itself."""
    pair = "{'i': CAST(split_part(x, '-', 1) AS INTEGER), 'j': CAST(split_part(x, '-', 2) AS INTEGER)}"
    of_words = f"list_transform(string_split({alignment}, ' '), lambda x: {pair})"
    words = f"(CASE WHEN {alignment} = '' THEN [] ELSE {of_words} END)"
    place = "CAST(list_position({side}, '[X,' || k || ']') - 1 AS INTEGER)"
    of_source, of_target = (place.format(side=f"string_split({side}, ' ')") for side in (source, target))
    gaps = f"list_transform(range(1, nonterminals + 1), lambda k: {{'i': {of_source}, 'j': {of_target}}})"
    return f"array_to_string(list_transform(list_sort(list_concat({words}, {gaps})), lambda l: l.i || '-' || l.j), ' ')"


def plain(value: str) -> str:
    """Write whole numbers exactly, others to six digits; an exponent follows a decimal point, as cdec wants it."""
    return f"plain_number({value})"


NUMBER_MACRO = """CREATE MACRO plain_number(x) AS CASE
    WHEN x = floor(x) AND abs(x) < 1e15 THEN CAST(CAST(x AS BIGINT) AS VARCHAR)
    WHEN abs(x) >= 1e-4 AND abs(x) < 999999 THEN printf('%.6g', CAST(x AS DOUBLE))
    ELSE printf('%.5e', CAST(x AS DOUBLE)) END"""
