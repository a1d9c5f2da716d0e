"""The `terms` command, which extracts bilingual terms from a store."""

import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from hierogram.daemon.cli.common import interruptible, open_chosen_store, plural, print_note, print_table
from hierogram.daemon.cli.flags import given_options, with_options
from hierogram.daemon.exceptions import UsageError
from hierogram.daemon.extensions import INSPECT, Command, Extension
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
    output: Annotated[Path | None, replace(OUTPUT, shown="standard output")] = None,
) -> None:  # fmt: skip
    """Find terms: words and phrases with a consistent translation. --departures lists exceptions.

    Case is ignored. Terms are shown in their most frequent case within sentences. Pairs must be aligned, but rules are
    not required. The store is not changed. By default, a glossary (-o terms.glossary) also contains single words, and
    only terms with their usual rendering in at least 90 % of their pairs.
    """
    from hierogram.daemon.files import open_output
    from hierogram.daemon.text.pipeline import make_pipeline, two_languages

    suffix = output.suffix.removeprefix(".") if output else ""
    format_name = format or (suffix if suffix in FORMATS else TABLE)
    if output is not None and format_name == TABLE:
        if format == TABLE:
            raise UsageError(f"{output}: the format table is only printed: choose another --format, or omit --output")
        raise UsageError(f"{output}: unknown suffix: expected {_SUFFIXES}, or choose the format with --format")
    language_pair = two_languages(languages, "--languages") if languages else ()
    if format_name in (TBX, GLOSSARY) and departures:
        raise UsageError(
            f"--departures cannot be combined with the format {format_name}, which lists terms only: use --format tsv"
        )
    if format_name == GLOSSARY:
        given = given_options(context, TermOptions)
        options = replace(options, **{name: GLOSSARY_DEFAULTS[name] for name in GLOSSARY_DEFAULTS.keys() - given})
    from hierogram.tools.terms.extraction import terms as find_terms
    from hierogram.tools.terms.reports import format_terms

    with (
        interruptible("no output was written"),
        open_chosen_store(context) as opened,
        progress("terms", "pairs") as bar,
    ):
        report = find_terms(
            opened, departures=departures, options=options,
            progress=lambda doing, done, total: bar.update(done, total, done, doing),
        )  # fmt: skip
        if format_name not in (GLOSSARY, JSON):
            report = report.as_text(make_pipeline(opened.store.settings()).with_whole_words())
        url = opened.url
    if format_name != TABLE:
        content = "".join(format_terms(report, format_name, departures > 0, language_pair, url))
        if output is None:
            sys.stdout.write(content)
        else:
            with open_output(output) as file:
                file.write(content.encode())
    elif departures:
        columns = ("term", "usual", "rendering", "pair", "source", "target")
        departed = [[str(getattr(item, name)) for name in columns] for item in report.departures]
        print_table(columns, departed, numeric=(3,))
    else:
        rows = [
            (f"{item.score:.1f}", item.source, item.target, f"{item.pairs} of {item.source_pairs}",
             "; ".join(map(str, item.renderings[1:4])))
            for item in report.terms
        ]  # fmt: skip
        print_table(("score", "source", "target", "pairs", "other renderings"), rows, numeric=(0, 3))
    departure_count = f", {plural(len(report.departures), 'departure')}" if departures else ""
    print_note(f"{plural(len(report.terms), 'term')}{departure_count} of {plural(report.pairs, 'pair')}")


EXTENSION = Extension(commands=[Command(INSPECT, terms, "hierogram terms --top 200 -o terms.tbx --languages fr,en")])
