"""The command that tells what a store knows of a sentence: evidence."""

from typing import TYPE_CHECKING, Annotated, Literal

import typer

from hierogram.daemon.commands.common import AsJson, StoreUrl, note, say, say_json, say_table, store_url
from hierogram.daemon.commands.flags import with_options
from hierogram.daemon.evidence.options import EvidenceOptions
from hierogram.daemon.exceptions import UsageError

if TYPE_CHECKING:
    from hierogram.daemon.evidence.gathering import Evidence

TABLE, PROMPT, JSON = "table", "prompt", "json"


@with_options
def evidence(
    context: typer.Context,
    sentence: Annotated[str, typer.Argument(metavar="SENTENCE", help="The sentence, in the source language.")],
    *,
    wanted: EvidenceOptions,
    format: Annotated[
        Literal["table", "prompt", "json"] | None,
        typer.Option(help="How to write it: for people, as text ready for a prompt, for programs.", show_default=TABLE),
    ] = None,
    as_json: AsJson = False,
    store: StoreUrl = None,
) -> None:
    """Show what a store knows of a sentence: the rules that match it, and the pairs that cover most of it.

    Rules with gaps match too. Nothing is changed, and no daemon is needed.
    """
    from hierogram.daemon.evidence.gathering import as_plain, gather
    from hierogram.daemon.evidence.rendering import as_prompt
    from hierogram.storage.browsing.reader import Reader

    if as_json and format not in (None, JSON):
        raise UsageError(f"--json and --format {format} are two ways to write it: give one")
    with Reader(store_url(context, store)) as reader, reader.look() as look:
        found = gather(look, sentence, wanted)
        languages = tuple(look.settings().languages or ())
    if as_json or format == JSON:
        say_json(as_plain(found))
    elif format == PROMPT:
        print(as_prompt(found, languages), end="")
    else:
        _say(found)


def _say(found: "Evidence") -> None:
    from hierogram.daemon.evidence.rendering import table_of_entries, table_of_pairs, table_of_rules

    columns, *rows = table_of_rules(found)
    say_table(columns, rows, numeric=(2, 3))
    if found.pairs:
        columns, *rows = table_of_pairs(found)
        say()
        say_table(columns, rows, numeric=(0,))
    if found.entries:
        columns, *rows = table_of_entries(found)
        say()
        say_table(columns, rows)
    if not found.rules:
        note("no rule matches: nothing is learned yet, or no rule has these words")
    if found.unknown:
        note(f"words that no stored pair has: {' '.join(found.unknown)}")
