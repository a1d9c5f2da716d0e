"""Helpers shared by commands: exit codes, opening stores, input files, and output."""

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any

import typer

from hierogram.daemon.exceptions import UsageError
from hierogram.daemon.shared_options import STANDARD_STREAM

if TYPE_CHECKING:
    from hierogram.daemon.library.store import GrammarStore
    from hierogram.daemon.text.pipeline import TextSide

PROBLEMS_FOUND, USAGE, BAD_INPUT, INTERRUPTED = 1, 2, 3, 130
"""Exit codes; see `hierogram --help`."""

STORE_HELP = "Store to work on: sqlite:///FILE, postgresql://USER@HOST/DATABASE, or a path ending in .db."


def store_url(context: typer.Context) -> str:
    """Return the URL of the store that the command line or the environment names, or the default URL."""
    return named_store(context) or str(context.find_root().params["store"])


def named_store(context: typer.Context) -> str | None:
    """Return the value of `--store`, or None if it was not given on the command line."""
    named: str | None = context.obj
    return named


def open_chosen_store(context: typer.Context) -> "GrammarStore":
    """Open the store that the command line or the environment names, or the default store."""
    from hierogram.daemon.library.store import open

    return open(store_url(context))


def files_or_input(files: Sequence[str] | None, content: str) -> list[str]:
    """Return the files, by default `-` (standard input). Prints a hint if the user must type the input."""
    names = list(files or (STANDARD_STREAM,))
    if STANDARD_STREAM in names and sys.stdin.isatty():
        print_note(f"reading {content} from standard input; press Ctrl-D to finish")
    return names


def grammar_and_sentences(
    context: typer.Context,
    files: Sequence[str],
    stack: ExitStack,
    is_grammar: Callable[[str], bool],
    *,
    needs_file: bool = False,
) -> tuple["GrammarStore | str", str]:
    """Return the grammar (an open store or a path) and the file of sentences that the arguments name."""
    from hierogram.daemon.library.store import open
    from hierogram.daemon.text.lines import check_readable

    if len(files) > 2:
        raise UsageError("expected GRAMMAR FILE, or --store URL and FILE")
    names_store = bool(files) and (files[0].endswith(".db") or "://" in files[0])
    has_grammar = len(files) == 2 or (len(files) == 1 and (names_store or is_grammar(files[0])))
    grammar = files[0] if has_grammar else None
    if needs_file and has_grammar and len(files) == 1:
        raise UsageError(f"a file of sentences is missing: expected {grammar} FILE")
    if grammar and named_store(context):
        raise UsageError(f"--store and {grammar} are mutually exclusive")
    [sentences] = files_or_input(files[1:] if has_grammar else files, f"sentences for {grammar or store_url(context)}")
    check_readable(sentences)
    if grammar is None:
        return stack.enter_context(open_chosen_store(context)), sentences
    return stack.enter_context(open(grammar)) if names_store else grammar, sentences


def was_given(context: typer.Context, name: str) -> bool:
    """Check if the parameter was given on the command line, not by the environment or a default."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def open_or_create(url: str, **settings: Any) -> "GrammarStore":
    """Open the store at the URL. If it does not exist, create it with these settings."""
    from hierogram.daemon.library.store import open
    from hierogram.storage.exceptions import StoreMissingError

    try:
        return open(url)
    except StoreMissingError:
        return open(url, create=True, **settings)


def print_note(line: str) -> None:
    """Print a line to standard error."""
    print(line, file=sys.stderr)


def print_json(value: object) -> None:
    """Print a value as JSON, with times as ISO 8601 strings."""
    print(json.dumps(value, indent=2, ensure_ascii=False, default=datetime.isoformat))


def print_table(columns: Sequence[str], rows: Sequence[Sequence[str]], numeric: Sequence[int] = ()) -> None:
    """Print a table: aligned on a terminal, else tab-separated. Columns `numeric` are right-aligned."""
    if not sys.stdout.isatty():
        for row in (columns, *rows):
            print("\t".join(row))
        return
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=SIMPLE_HEAD)
    for k, column in enumerate(columns):
        table.add_column(column, justify="right" if k in numeric else "left", overflow="fold")
    for row in rows:
        table.add_row(*map(Text, row))
    Console().print(table)


@contextmanager
def interruptible(consequence: str) -> Iterator[None]:
    """Catch Ctrl-C: print the consequence, such as `no file was written`, and exit with `INTERRUPTED`."""
    try:
        yield
    except KeyboardInterrupt as error:
        print_note(f"hierogram: interrupted: {consequence}")
        raise typer.Exit(INTERRUPTED) from error


def advise_tokenization(side: "TextSide", file: str, lines: Sequence[str], tokenized: bool) -> None:
    """Print advice if the text seems untokenized, or seems tokenized already although a tokenizer is set."""
    from hierogram.daemon.text.inspection import text_advice

    advice = None if tokenized else text_advice(side, file, lines, "--tokenize fr,en", "--tokenized")
    if advice is not None:
        print_note(advice)


def plural(number: int, noun: str) -> str:
    """Format a count with its noun, such as `1 pair` or `2,000 pairs`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
