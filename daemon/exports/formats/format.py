"""A format: how a rule becomes a line, in SQL over the columns of a scored rule, and how a line is read.

The columns are `source`, `target` (in the store's notation), `alignment` (links of words), those of the format's shape,
`uses`, `count`, `source_uses`, `target_uses`, `source_count`, `target_count` (sums over the rules with that side), and
the values of `FEATURES`.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from hierogram.daemon.compressing import Compression
from hierogram.samplers.grammar.kinds import LINKS, TRANSLATION, Notation


@dataclass(frozen=True, slots=True)
class Feature:
    """A value of a rule: its name, what it is, and how it is computed from the columns of `scored`."""

    name: str
    meaning: str
    value: str
    lexical: bool = False
    probability: bool = False


FEATURES = (
    Feature(
        "p_target_given_source",
        "count over the sum of counts with that source side",
        "uses / source_uses",
        probability=True,
    ),
    Feature(
        "p_source_given_target",
        "count over the sum of counts with that target side",
        "uses / target_uses",
        probability=True,
    ),
    Feature("lex_target_given_source", "lexical weight of the target words", "lex_target_given_source", True, True),
    Feature("lex_source_given_target", "lexical weight of the source words", "lex_source_given_target", True, True),
    Feature("count", "how often it is expected to be used; with `drawn`, how often it is", "count"),
    Feature("singleton", "1 where it is used at most once", "CASE WHEN count <= 1 THEN 1 ELSE 0 END"),
    Feature(
        "source_singleton",
        "1 where its source side is used at most once",
        "CASE WHEN source_count <= 1 THEN 1 ELSE 0 END",
    ),
    Feature("terminals_only", "1 where it has no nonterminal", "CASE WHEN nonterminals = 0 THEN 1 ELSE 0 END"),
    Feature("glue", "1 for glue rules, which stand in a file of their own; here 0", "0"),
)

BY_NAME = {feature.name: feature for feature in FEATURES}


Chosen = Sequence[Feature]


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
    `fixed` all are written.
    With `alignments` it shows which words of a rule are linked. `shape` are the columns that it needs of `scope`,
    `nonterminals`, `source_terminals` and `target_terminals`. `order` sorts the lines, `header` comes first, `glue` is
    a file of its own. `suffix` ends the names of files, before that of the compression; `compression` is what whoever
    reads the format can undo. `needs` is what a kind of grammar has to offer (`hierogram.samplers.grammar.kinds`) for
    it to be written so; None: nothing. With `words` its lines are pairs of linked words and not rules; `rows` is an SQL
    query of what stands in lines, where that is not each rule.
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
    glue: Callable[[Chosen], Sequence[str]] | None = None
    needs: str | None = TRANSLATION
    words: bool = False
    rows: str | None = None

    def check_features(self, names: Sequence[str] | None) -> None:
        """Raise `ValueError` where the format cannot write a feature, or leaves no choice."""
        if names is None:
            return
        if self.fixed:
            raise ValueError(f"the features of {self.name} are fixed: {', '.join(self.features)}")
        for name in names:
            if name not in self.features:
                raise ValueError(f"{self.name} has no feature {name!r}; there are {', '.join(self.features)}")

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
