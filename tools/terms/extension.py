"""The `terms` command, which extracts bilingual terms from a store."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from hierogram.daemon.cli.common import interruptible, open_chosen_store, plural, print_note, print_table
from hierogram.daemon.cli.flags import given, with_options
from hierogram.daemon.exceptions import UsageError
from hierogram.daemon.extensions import LOOK, Command, Extension
from hierogram.daemon.progress import progress
from hierogram.daemon.shared_options import OUTPUT, Languages
from hierogram.storage.options import Option
from hierogram.tools.terms.options import (
    FORMATS,
    GLOSSARY,
    GLOSSARY_DEFAULTS,
    JSON,
    MAX_DEPARTURES,
    TABLE,
    TBX,
    TermOptions,
)

_SUFFIXES = ", ".join(f".{name}" for name in FORMATS if name != TABLE)


@with_options
def terms(
    context: typer.Context,
    options: TermOptions,
    departures: Annotated[
        int,
        Option(
            "List up to N pairs per term that do not use its usual rendering, instead of the terms.",
            min=0, max=MAX_DEPARTURES, metavar="N",
        ),
    ] = 0,
    format: Annotated[
        str | None, Option("Output format", values=FORMATS, shown="from the file suffix, else table")
    ] = None,
    languages: Languages = None,
    output: Annotated[Path | None, OUTPUT] = None,
) -> None:  # fmt: skip
    """Find terms, words and phrases with a consistent translation. Also finds pairs that translate a term differently.

    Case is ignored; terms are shown in their most frequent case within sentences. Pairs must be aligned, but rules are
    not required. This works with and without a daemon, and changes nothing. By default, a glossary (-o terms.glossary)
    also contains single words, and only terms with their usual rendering in 90 % of their pairs.
    """
    from hierogram.daemon.text.texts import make_pipeline, two_languages

    form = _format(format, output)
    pair = two_languages(languages, "--languages") if languages else ()
    if form in (TBX, GLOSSARY) and departures:
        raise UsageError(
            f"--departures: not available for {form}, which lists terms only: use another --format, such as tsv"
        )
    if form == GLOSSARY:
        options = replace(
            options,
            **{name: value for name, value in GLOSSARY_DEFAULTS.items() if name not in given(context, TermOptions)},
        )
    from hierogram.tools.terms.extraction import terms as find_terms
    from hierogram.tools.terms.reports import format_renderings, format_terms

    with (
        interruptible("no output was written"),
        open_chosen_store(context) as opened,
        progress("terms", "pairs") as bar,
    ):
        report = find_terms(
            opened, departures=departures, options=options,
            progress=lambda doing, done, total: bar.update(done, total, done, doing),
        )  # fmt: skip
        if form not in (GLOSSARY, JSON):
            report = report.as_text(make_pipeline(opened.store.settings()).to_words())
        url = opened.url
    if form != TABLE:
        _write(output, list(format_terms(report, form, departures > 0, pair, url)))
    elif departures:
        rows = [
            (item.term, item.usual, item.rendering, str(item.pair), item.source, item.target)
            for item in report.departures
        ]
        print_table(("term", "usual", "here", "pair", "source", "target"), rows, numeric=(3,))
    else:
        reported = [
            (f"{item.score:.1f}", item.source, item.target, f"{item.pairs} of {item.source_pairs}",
             format_renderings(item.renderings[1:4]))
            for item in report.terms
        ]  # fmt: skip
        print_table(("score", "source", "target", "pairs", "other renderings"), reported, numeric=(0, 3))
    found = f", {plural(len(report.departures), 'departure')}" if departures else ""
    print_note(f"{plural(len(report.terms), 'term')}{found} of {plural(report.pairs, 'pair')}")


def _format(named: str | None, output: Path | None) -> str:
    ending = output.suffix.removeprefix(".") if output else ""
    form = named or (ending if ending in FORMATS else TABLE)
    if output is not None and form == TABLE:
        raise UsageError(
            f"--output {output}: unknown suffix: use {_SUFFIXES}, or choose the format with --format"
        )
    return form


def _write(output: Path | None, made: list[str]) -> None:
    from hierogram.daemon.compressing import open_output

    if output is None:
        for piece in made:
            sys.stdout.write(piece)
        return
    with open_output(output) as file:
        for piece in made:
            file.write(piece.encode())


_EXAMPLE = "hierogram terms --top 200 -o terms.tbx --languages fr,en"
EXTENSION = Extension(commands=lambda: [Command(LOOK, terms, _EXAMPLE)])
