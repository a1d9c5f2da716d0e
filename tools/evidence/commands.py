"""Command that shows the evidence for a sentence: evidence."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from hierogram.daemon.cli.common import chosen_store, note, print_json, print_table
from hierogram.daemon.cli.flags import given, with_options
from hierogram.daemon.exceptions import UsageError
from hierogram.daemon.shared_options import AsJson
from hierogram.storage.options import Option
from hierogram.tools.evidence.options import MOST_CHARACTERS, EvidenceOptions, to_choose_from

if TYPE_CHECKING:
    from hierogram.tools.evidence.gathering import Evidence

TABLE, PROMPT, JSON = "table", "prompt", "json"


@with_options
def evidence(
    context: typer.Context,
    sentence: Annotated[str, Option("The sentence, in the source language.", metavar="SENTENCE", positional=True)],
    *,
    wanted: EvidenceOptions,
    format: Annotated[
        Literal["table", "prompt", "json"] | None,
        Option("How to write it: for people, as text ready for a prompt, for programs.", shown=TABLE),
    ] = None,
    characters: Annotated[
        int | None,
        Option(
            "With --format prompt: rules and pairs alone, chosen together for what they cover, within this number of "
            "characters.",
            min=1,
            max=MOST_CHARACTERS,
            metavar="N",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Show what a store knows of a sentence: the rules that match it, and the pairs that cover most of it.

    Rules with gaps match too. Nothing is changed, and no daemon is needed.
    """
    from hierogram.daemon.text.texts import pipeline_of
    from hierogram.tools.evidence.budget import within
    from hierogram.tools.evidence.gathering import as_prompt

    if as_json and format not in (None, JSON):
        raise UsageError(f"--json and --format {format} are two ways to write it: give one")
    if characters is not None:
        if format != PROMPT:
            raise UsageError("--characters limits the text of a prompt: give --format prompt, too")
        if chosen := given(context, EvidenceOptions) - {"tokenized"}:
            raise UsageError(f"--characters limits rules and pairs together: leave out --{min(chosen)}")
        wanted = to_choose_from(tokenized=wanted.tokenized)
    with chosen_store(context) as opened:
        found, texts = opened.evidence(sentence, options=wanted), pipeline_of(opened.settings())
    if as_json or format == JSON:
        print_json(asdict(found))
    elif characters is not None:
        print(within(found, characters, texts))
    elif format == PROMPT:
        print(as_prompt(found, sentence, texts), end="")
    else:
        _print_evidence(found)


def _print_evidence(found: "Evidence") -> None:
    from hierogram.tools.evidence.gathering import table_of_rules

    columns, *rows = table_of_rules(found)
    print_table(columns, rows, numeric=(2, 3))
    if found.pairs:
        print()
        pairs = [(str(pair.id), pair.corpus, pair.source, pair.target) for pair in found.pairs]
        print_table(("pair", "corpus", "source", "target"), pairs, (0,))
    if found.entries:
        print()
        entries = [(entry.corpus, entry.source, entry.target) for entry in found.entries]
        print_table(("dictionary", "source", "target"), entries)
    if not found.rules:
        note("no rule matches: nothing is learned yet, or no rule has these words")
    if found.unknown:
        note(f"words that no stored pair has: {' '.join(found.unknown)}")
