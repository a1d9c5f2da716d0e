"""Share among commands the store that they work on, and the ways in which they print."""

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from hierogram.daemon.exceptions import UsageError

if TYPE_CHECKING:
    from hierogram.daemon.corpora.texts import TextSide
    from hierogram.samplers.grammar.kinds import Notation
    from hierogram.storage.records import Settings
    from hierogram.storage.store import Store


DEFAULT_STORE = "sqlite:///hierogram.db"

OK, FOUND, USAGE, BAD_INPUT, INTERRUPTED = 0, 1, 2, 3, 130
"""Exit codes: done; a check found something; wrong usage; bad input or store; ended by Ctrl-C."""

StoreUrl = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="URL",
        help=f"Store to work on: sqlite:///FILE, postgresql://USER@HOST/DATABASE, or a path ending in .db. "
        f"[default: HIEROGRAM_STORE, else {DEFAULT_STORE}]",
        show_default=False,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Write JSON for programs.")]


def store_url(context: typer.Context) -> str:
    """Return the URL of the store that a command works on, by the command line, the environment, or the default."""
    return chosen_store(context).url


def named_store(context: typer.Context) -> str | None:
    """Return the store that stands on the command line, for a command that can do without one; None: none does."""
    chosen = chosen_store(context)
    return chosen.url if chosen.given else None


@dataclass(frozen=True, slots=True)
class ChosenStore:
    """The store chosen for all commands, and whether it stands on the command line (else: environment or default)."""

    url: str
    given: bool


def chosen_store(context: typer.Context) -> ChosenStore:
    """Return what the global option says."""
    chosen = context.find_root().obj
    return chosen if isinstance(chosen, ChosenStore) else ChosenStore(DEFAULT_STORE, False)


def is_store(named: str) -> bool:
    """Return whether what is named is a store, and not a file."""
    return named.endswith(".db") or "://" in named


def grammar_and_sentences(context: typer.Context, files: list[str]) -> tuple[str, bool, str]:
    """Return the grammar, whether it is that of a store, and the file of sentences; raises `UsageError`."""
    if len(files) == 1:
        _check_sentences(files[0])
        return store_url(context), True, files[0]
    if len(files) != 2:
        raise UsageError("name a grammar and a file of sentences, or with --store the file alone")
    if chosen_store(context).given:
        raise UsageError(f"--store and {files[0]} are two grammars: name one")
    return files[0], is_store(files[0]), files[1]


def _check_sentences(path: str) -> None:
    """Raise `UsageError` where what is given for a file of sentences is a grammar."""
    from hierogram.daemon.decoding.grammars import is_grammar

    if is_store(path) or is_grammar(path):
        raise UsageError(
            f"{path} is a grammar, and no file of sentences is named: name both: {path} FILE (or - for stdin)"
        )


def was_given(context: typer.Context, name: str) -> bool:
    """Return whether the parameter stands on the command line."""
    source = context.get_parameter_source(name)
    return source is not None and source.name == "COMMANDLINE"


def open_or_make(url: str, settings: "Settings | None" = None) -> "tuple[Store, bool]":
    """The store at the URL, and whether it had to be made, with `settings` or the defaults."""
    from hierogram.storage.exceptions import StoreMissingError
    from hierogram.storage.store import open_store

    try:
        return open_store(url), False
    except StoreMissingError:
        return open_store(url, create=True, settings=settings), True


def say(line: str = "") -> None:
    """A line of output for people."""
    print(line)


def note(line: str) -> None:
    """A line beside the output: on standard error."""
    print(line, file=sys.stderr)


def say_json(value: object) -> None:
    """A value as JSON."""
    print(json.dumps(value, indent=2, ensure_ascii=False))


def is_terminal(stream: TextIO) -> bool:
    """Return whether people read the stream as it is written."""
    return stream.isatty()


def say_table(columns: Sequence[str], rows: Sequence[Sequence[str]], numeric: Sequence[int] = ()) -> None:
    """A table: aligned on a terminal, separated by tabs elsewhere; `numeric` columns stand to the right."""
    if not is_terminal(sys.stdout):
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
    """Ends the command in good order when someone presses Ctrl-C, and says what that means."""
    try:
        yield
    except KeyboardInterrupt as error:
        note(f"hierogram: interrupted: {consequence}")
        raise typer.Exit(INTERRUPTED) from error


def note_text(side: "TextSide", named: str, lines: Sequence[str], tokenized: bool, option: str = "fr,en") -> None:
    """Say it where text looks as if it should be divided into tokens and is not, or the other way about."""
    from hierogram.daemon.corpora.texts import text_advice

    advice = None if tokenized else text_advice(side, named, lines, f"--tokenize {option}", "--tokenized")
    if advice is not None:
        note(advice)


def nouns_of(store: "Store") -> "Notation":
    """The kind of grammar that the store holds, which says what its things are called: pairs or trees."""
    from hierogram.samplers.grammar.kinds import notation_of

    return notation_of(store.settings().grammar)


def plural(number: int, noun: str) -> str:
    """`1 pair`, `2,000 pairs`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"
