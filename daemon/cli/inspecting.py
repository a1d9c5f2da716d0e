"""Commands that query a store: rules, sql."""

import csv
import io
import json
import shlex
import shutil
import sqlite3
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, BinaryIO

import typer

from hierogram.daemon.cli.common import interruptible, open_chosen_store, plural, print_json, print_note, print_table
from hierogram.daemon.cli.flags import Exclude, given_options, with_options
from hierogram.daemon.exceptions import NothingLearnedError, UsageError
from hierogram.daemon.files import atomic_write
from hierogram.daemon.progress import progress
from hierogram.daemon.shared_options import LIMIT, OUTPUT, STANDARD_STREAM, AsJson, CurrentSample, RuleQuery
from hierogram.samplers.grammar.kinds import FRAGMENTS, SOURCE, TARGET
from hierogram.storage.options import Option

if TYPE_CHECKING:
    from hierogram.storage.browsing.sql_runner import SpooledResult


@with_options
def rules(
    context: typer.Context,
    words: Annotated[
        list[str] | None,
        Option("Source side of the rules, such as `la [X,1] de`.", metavar="[WORDS]...", positional=True),
    ] = None,
    *,
    query: Annotated[RuleQuery, Exclude(("source",))],
    containing: Annotated[
        bool,
        Option(
            "Find rules that contain all WORDS, on either side, among rules in use and rules with at least 0.5 "
            "expected uses."
        ),
    ] = False,
    tree: Annotated[bool, Option("Draw the fragments of a tree grammar as outlines.")] = False,
    pairs: Annotated[
        bool,
        Option("Show the pairs or trees whose current derivation uses the rule WORDS, given as `source ||| target`."),
    ] = False,
    current_sample: CurrentSample = False,
    as_json: AsJson = False,
) -> None:
    """Show rules, most used first, with expected uses, standard errors, p(e|f) and p(f|e).

    Write a side as words and nonterminals numbered in source order, as in `la [X,1] de`. If no rule matches exactly,
    rules that differ only in accents or capital letters are shown. In a store that tokenizes text, `l'eau` finds
    `l' eau`. In a store of trees, WORDS is the root label of the fragments, and the probability is
    p(fragment | label).

    --pairs first adds the pairs sampled since the last update to the table rule_pairs. Without WORDS, only the table is
    updated.
    """
    if pairs:
        if containing or tree or current_sample or given_options(context, RuleQuery) - {"limit"}:
            raise UsageError("--pairs accepts only a rule such as `source ||| target`, --limit and --json")
        _show_occurrences(context, words or [], query.limit, as_json)
        return

    from hierogram.daemon.text.word_view import WordView

    words = words or []
    source = None if containing or not words else " ".join(words)
    words = words if containing else []
    with open_chosen_store(context) as opened:
        grammar_kind = opened.grammar_kind()
        find_rules = partial(opened.find_rules, current_sample=current_sample)
        matching, respelled = find_rules(source, query.target, containing=words, limit=query.limit)
        view = WordView(opened.settings().word_parts)
        similar, is_target = [], False
        if not matching:
            side = source or query.target or ""
            sides = (SOURCE, TARGET) if words else (SOURCE,) if source else (TARGET,)
            similar = opened.store.similar_words((words or side.split(" "))[0], sides)
            if source is not None:
                is_target = bool(find_rules(None, source, limit=1).rules)
        fragments = FRAGMENTS in grammar_kind.capabilities
    if tree and not fragments:
        raise UsageError("--tree requires a store of trees, because it draws tree fragments")
    if matching and respelled:
        print_note("no exact match: these rules differ in accents or capital letters")
    if as_json:
        print_json([asdict(rule) for rule in matching])
        return
    if not matching:
        if is_target:
            print_note(f"these words are the target side of rules: try --target {shlex.quote(source or '')}")
        else:
            print_note("no matching rules" + (": try --containing" if source is not None else ""))
        if similar:
            print_note(f"similar words: {', '.join(similar)}")
        return
    if tree:
        for rule in matching:
            uses = f"{rule.expected_uses:.2f} ± {rule.expected_uses_error:.2f} uses"
            if current_sample:
                uses = plural(rule.count, "use")
            print(f"{rule.target}   ({uses}, p {rule.p_target_given_source:.4f})", *_outline(rule.target), sep="\n")
        return
    columns = ["count"] if current_sample else ["expected_uses", "±"]
    columns += ["p", "root", "fragment"] if fragments else ["p(e|f)", "p(f|e)", "source", "target"]
    rows = []
    for rule in matching:
        numbers = [f"{rule.expected_uses:.2f}", f"{rule.expected_uses_error:.2f}"]
        if current_sample:
            numbers = [str(rule.count)]
        numbers.append(f"{rule.p_target_given_source:.4f}")
        if not fragments:
            numbers.append(f"{rule.p_source_given_target:.4f}")
        rows.append((*numbers, view.side(rule.source), view.side(rule.target)))
    print_table(columns, rows, numeric=range(len(columns) - 2))


def _outline(fragment: str) -> Iterator[str]:
    """Yield the symbols of a tree fragment, one per line, indented by depth."""
    depth = 2
    for piece in fragment.split(" "):
        symbol = piece.rstrip(")")
        yield "  " * depth + (symbol[1:] if symbol.startswith("(") else f"'{symbol}'")
        depth += symbol.startswith("(") - (len(piece) - len(symbol))


def _show_occurrences(context: typer.Context, words: Sequence[str], limit: int, as_json: bool) -> None:
    """Index sampled pairs by their rules, and print the pairs that use a rule."""
    from hierogram.daemon.text.word_view import WordView
    from hierogram.samplers.exceptions import RuleNotationError
    from hierogram.samplers.grammar.rules import Rule

    try:
        rule = Rule.parse(" ".join(words)) if words else None
    except RuleNotationError as error:
        raise UsageError(str(error)) from error
    consequence = "indexed pairs are kept: run the command again to continue"
    with interruptible(consequence), open_chosen_store(context) as opened:
        kind, indexed = opened.grammar_kind(), 0
        unindexed = opened.store.count_unindexed()
        if unindexed and opened.store.read_only:
            omitted = plural(unindexed, f"unindexed {kind.singular}")
            print_note(f"{opened.url}: the store is read-only: omitting {omitted}")
        elif unindexed:
            with progress("index", kind.plural) as bar:
                indexed = opened.index(bar.update)
        if not opened.status().rules_in_use:
            raise NothingLearnedError(opened.url)
        source, target = str(rule).split(" ||| ") if rule else ("", "")
        pairs = opened.pairs_using(source, target, limit) if rule else []
        view = WordView(opened.settings().word_parts)
    if as_json:
        print_json([pair._asdict() for pair in pairs] if rule else {"indexed": indexed})
    elif not rule:
        print(f"{plural(indexed, kind.singular)} indexed")
    elif not pairs:
        print_note(f"no current derivation uses {rule}")
    else:
        rows = []
        for pair in pairs:
            in_words = view.pair(pair.source, pair.target, pair.alignment)
            rows.append((str(pair.id), pair.corpus, str(pair.uses), *in_words[:3]))
        print_table((kind.singular, "corpus", "uses", "source", "target", "alignment"), rows, numeric=(0, 2))


_TIMEOUT_SECONDS = 3600.0
_SUFFIXES = (".csv", ".json", ".parquet")


@with_options
def sql(
    context: typer.Context,
    query: Annotated[
        str | None,
        Option(
            "A SELECT, or several separated by semicolons. Default: standard input.", metavar="SQL", positional=True
        ),
    ] = None,
    limit: Annotated[int | None, LIMIT] = None,
    as_json: AsJson = False,
    output: Annotated[str, OUTPUT] = STANDARD_STREAM,
) -> None:
    """Run read-only SQL queries on the store.

    Prints a table to a terminal, tab-separated values elsewhere, or a list of objects with --json. The suffix of the
    output file must be .csv, .json or .parquet. See docs/sql.md for example queries, and `SELECT * FROM catalog` for
    all tables and columns.
    """
    suffix = Path(output).suffix
    to_file = output != STANDARD_STREAM
    if to_file and suffix not in _SUFFIXES:
        raise UsageError(f"{output}: unknown suffix: expected {', '.join(_SUFFIXES)}")
    if to_file and as_json:
        raise UsageError("--json and --output are mutually exclusive")
    statements = split_statements(sys.stdin.read() if query is None or query == "-" else query)
    if not statements:
        raise UsageError("no query: give a SELECT as the argument or on standard input")
    if to_file and len(statements) > 1:
        raise UsageError(f"--output requires exactly one query, got {len(statements)}")
    with interruptible("the query was canceled"), open_chosen_store(context) as opened:
        for number, statement in enumerate(statements):
            with closing(opened.open_query_result(statement, limit=limit, seconds=_TIMEOUT_SECONDS)) as result:
                if to_file:
                    rows = _write_result(result, Path(output))
                    print_note(f"{output}: {plural(rows, 'row')}")
                elif as_json:
                    print_json(list(_dictionaries(result)))
                else:
                    if number:
                        print()
                    _print_result(result)
                if result.more and limit is not None:
                    print_note(f"only the first {plural(limit, 'row')} (--limit)")
                if result.truncated:
                    print_note(f"{plural(result.truncated, 'long value')} truncated to 10,000 characters")


def split_statements(text: str) -> list[str]:
    """Return the SQL statements of a text, without their semicolons."""
    statements, current = [], ""
    for part in text.split(";"):
        current += part
        # Semicolons in literals and comments do not end a statement.
        if sqlite3.complete_statement(current + ";"):
            statements.append(current)
            current = ""
        else:
            current += ";"
    statements.append(current.removesuffix(";"))
    return [statement.strip() for statement in statements if statement.strip()]


def _write_result(result: "SpooledResult", path: Path) -> int:
    with atomic_write(path) as file:
        if path.suffix == ".parquet":
            _write_parquet(result, file)
        else:
            text = io.TextIOWrapper(file, encoding="utf-8", newline="", write_through=True)
            if path.suffix == ".csv":
                writer = csv.writer(text)
                writer.writerow(result.columns)
                writer.writerows(map(json.loads, result.lines()))
            else:
                objects = (json.dumps(row, ensure_ascii=False) for row in _dictionaries(result))
                text.write("[")
                text.writelines(f"{',' if number else ''}\n{row}" for number, row in enumerate(objects))
                text.write("\n]\n")
            text.detach()
    return sum(1 for _ in result.lines())


def _dictionaries(result: "SpooledResult") -> Iterator[dict[str, object]]:
    return (dict(zip(result.columns, json.loads(line), strict=True)) for line in result.lines())


def _write_parquet(result: "SpooledResult", file: BinaryIO) -> None:
    import duckdb

    columns = ", ".join('"' + column.replace('"', '""') + '"' for column in result.columns)
    with tempfile.TemporaryDirectory() as folder, closing(duckdb.connect()) as connection:
        lines, parquet = Path(folder, "rows.json"), Path(folder, "rows.parquet")
        with lines.open("w", encoding="utf-8") as rows:
            # Write a first row with every column, so that an empty result also has columns. It is skipped below.
            rows.write(json.dumps(dict.fromkeys(result.columns)) + "\n")
            for row in _dictionaries(result):
                rows.write(json.dumps(row, ensure_ascii=False) + "\n")
        # Derive the column types from all rows, because a later row may contain a value of another type.
        content = f"read_json('{lines}', format = 'newline_delimited', sample_size = -1)"
        connection.sql(f"SELECT {columns} FROM {content} OFFSET 1").write_parquet(str(parquet), compression="zstd")
        with parquet.open("rb") as source:
            shutil.copyfileobj(source, file)


def _print_result(result: "SpooledResult") -> None:
    numeric = []
    for k in range(len(result.columns)):
        cells = [row[k] for row in result.rows if row[k] is not None]
        if cells and all(isinstance(cell, int | float) for cell in cells):
            numeric.append(k)
    print_table(result.columns, [[_format_cell(cell) for cell in row] for row in result.rows], numeric)


def _format_cell(cell: object) -> str:
    if cell is None:
        return ""
    if isinstance(cell, float):
        return f"{cell:.6g}"
    # Escape tabs and line breaks, because they would look like the next cell or row.
    return str(cell).replace("\t", "\\t").replace("\n", "\\n").replace("\r", "\\r")
