"""Which rules an export holds, and how many each filter leaves out."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hierogram.daemon.corpora.texts import TOKENS, TextSide
from hierogram.daemon.exceptions import ExportError
from hierogram.daemon.exports.options import ExportOptions
from hierogram.daemon.exports.tables.matching import TestSet
from hierogram.daemon.exports.tables.scratch import Scratch

_ADJACENT = r"(^| )\[X,[1-9][0-9]*\] \[X,[1-9][0-9]*\]( |$)"


@dataclass(frozen=True, slots=True)
class FilterCount:
    """How many rules there were before and after a filter."""

    filter: str
    before: int
    after: int


def read_test_set(path: Path, side: TextSide = TOKENS) -> TestSet:
    """The sentences of a file, one a line, each as `side` makes it; raises `ExportError` where it cannot be read."""
    try:
        return TestSet([side.tokens(line) for line in path.read_text(encoding="utf-8").removesuffix("\n").split("\n")])
    except (OSError, UnicodeDecodeError) as error:
        raise ExportError(f"{path}: cannot be read as a test set, a sentence a line: {error}") from error


def shape_of(options: ExportOptions) -> set[str]:
    """The columns of a rule's shape that the filters look at."""
    found = set()
    if options.max_scope is not None:
        found.add("scope")
    if options.max_nonterminals is not None or options.no_adjacent:
        found.add("nonterminals")
    if options.max_source_symbols is not None:
        found |= {"source_terminals", "nonterminals"}
    if options.aligned or options.max_span is not None:
        found |= {"source_terminals", "target_terminals", "nonterminals"}
    return found


def predicates(options: ExportOptions, samples: int, linked: bool) -> Iterator[tuple[str, str]]:
    """The filters that look at one rule at a time: what each is called, and its condition in SQL.

    Where rules have no links at all (`linked`), words on both sides have to do for an aligned pair of words.
    """
    if options.min_count > 0:
        yield f"count ≥ {options.min_count:g}", f"uses >= {options.min_count!r} * {samples}"
    if options.max_scope is not None:
        yield f"scope ≤ {options.max_scope}", f"scope <= {options.max_scope}"
    if options.max_nonterminals is not None:
        yield f"nonterminals ≤ {options.max_nonterminals}", f"nonterminals <= {options.max_nonterminals}"
    if options.no_adjacent:
        yield (
            "no adjacent source nonterminals",
            f"NOT (nonterminals > 1 AND contains(source, '] [X,') AND regexp_matches(source, '{_ADJACENT}'))",
        )
    if options.max_source_symbols is not None:
        symbols = options.max_source_symbols
        yield f"source symbols ≤ {symbols}", f"source_terminals + nonterminals <= {symbols}"
    if options.aligned and linked:
        yield "aligned words", "alignment <> ''"
    elif options.aligned:
        yield "words on both sides (the store has no links of rules)", "least(source_terminals, target_terminals) > 0"
    if options.max_span is not None:
        span = options.max_span
        yield (
            f"span ≥ {span + 1} ruled out by the sides",
            f"greatest(source_terminals, target_terminals) + nonterminals <= {span}",
        )


def apply_filters(scratch: Scratch, options: ExportOptions, samples: int, side: TextSide = TOKENS) -> list[FilterCount]:
    """Makes the view `kept` of the table `rules`: the rules that all filters leave; tells what each left.

    With a test set, whose sentences go through `side`, there is a table `matching` too (source, sentence).
    Raises `ExportError`.
    """
    names = []
    conditions = []
    linked = options.aligned and scratch.row("SELECT count(*) FROM rules WHERE alignment <> ''")[0] > 0
    for name, condition in predicates(options, samples, linked):
        names.append(name)
        conditions.append(condition)
    if options.filter_for is not None:
        _match(scratch, read_test_set(options.filter_for, side), conditions)
        names.append(f"can match a sentence of {options.filter_for.name}")
        conditions.append("source IN (SELECT DISTINCT source FROM matching)")
    counts = _counts(scratch, conditions)
    told = [FilterCount(name, counts[k], counts[k + 1]) for k, name in enumerate(names)]
    where = " AND ".join(conditions) or "true"
    if options.per_source is None:
        scratch.run(f"CREATE VIEW kept AS SELECT * FROM rules WHERE {where}")
        return told
    scratch.run(f"""
        CREATE TABLE best AS
        SELECT id FROM (
            SELECT id, row_number() OVER (PARTITION BY source ORDER BY uses DESC, target) AS place
              FROM rules WHERE {where}
        ) WHERE place <= {options.per_source}""")
    scratch.run("CREATE VIEW kept AS SELECT rules.* FROM rules SEMI JOIN best USING (id)")
    left = scratch.row("SELECT count(*) FROM best")[0]
    told.append(FilterCount(f"best {options.per_source} of a source side", counts[-1], left))
    return told


def _counts(scratch: Scratch, conditions: list[str]) -> list[int]:
    """Numbers of rules that meet the first 0, 1, 2, … conditions."""
    if any("SELECT" in condition for condition in conditions):
        # A membership test cannot stand in an aggregate's filter.
        return [
            scratch.row(f"SELECT count(*) FROM rules WHERE {' AND '.join(conditions[:k]) or 'true'}")[0]
            for k in range(len(conditions) + 1)
        ]
    together = (f"count(*) FILTER (WHERE {' AND '.join(conditions[:k])})" for k in range(1, len(conditions) + 1))
    return list(scratch.row(f"SELECT {', '.join(['count(*)', *together])} FROM rules"))


def _match(scratch: Scratch, test_set: TestSet, conditions: list[str]) -> None:
    scratch.run("CREATE TABLE matching (source VARCHAR, sentence BIGINT)")
    where = " AND ".join(conditions) or "true"
    for sources in scratch.texts(f"SELECT DISTINCT source FROM rules WHERE {where}"):
        found: list[tuple[object, ...]] = [
            (source, number) for source in sources for number in test_set.matches(source)
        ]
        if found:
            scratch.insert("matching", found)
