"""The command that finds the terms of a store: terms."""

import sys
from dataclasses import replace
from pathlib import Path

import typer

from hierogram.daemon.cli.common import chosen_store, interruptible, note, plural, print_table
from hierogram.daemon.cli.flags import given, with_options
from hierogram.daemon.exceptions import UsageError
from hierogram.daemon.progress import progress
from hierogram.tools.terms.options import FOR_GLOSSARIES, FORMATS, GLOSSARY, JSON, TABLE, TBX, TermOptions, TermOutput

_ENDINGS = ", ".join(f".{name}" for name in FORMATS if name != TABLE)


@with_options
def terms(context: typer.Context, options: TermOptions, written: TermOutput) -> None:
    """Find terms: phrases of a word or more that are translated alike, and the pairs where they are not.

    Words count without case and are shown in the case that they have most often within sentences. Nothing is changed,
    and no daemon is needed; the store's pairs need links, not rules. A glossary (-o terms.glossary) has single words
    too, and only what has its usual rendering in nine of ten pairs, unless options say otherwise.
    """
    from hierogram.daemon.text.texts import pipeline_of, two_languages

    form = _format(written)
    languages = two_languages(written.languages, "--languages") if written.languages else ()
    if form in (TBX, GLOSSARY) and written.departures:
        raise UsageError(f"--departures: {form} holds terms, no pairs: take another --format, as tsv")
    if form != TBX and "dialect" in given(context, TermOutput):
        raise UsageError("--dialect is for TBX: --format tbx, or a file that ends in .tbx")
    if form == GLOSSARY:
        options = replace(
            options,
            **{name: value for name, value in FOR_GLOSSARIES.items() if name not in given(context, TermOptions)},
        )
    from hierogram.tools.terms.reports import pieces, shown_renderings

    with interruptible("nothing was written"), chosen_store(context) as opened, progress("terms", "pairs") as shown:
        found = opened.terms(
            departures=written.departures, options=options,
            progress=lambda doing, done, total: shown.update(done, total, done, doing),
        )  # fmt: skip
        if form not in (GLOSSARY, JSON):
            found = found.as_text(pipeline_of(opened.store.settings()).to_words())
        url = opened.url
    if form != TABLE:
        _write(written.output, list(pieces(found, form, written.departures > 0, languages, url, written.dialect)))
    elif written.departures:
        rows = [(one.term, one.usual, one.rendering, str(one.pair), one.source, one.target) for one in found.departures]
        print_table(("term", "usual", "here", "pair", "source", "target"), rows, numeric=(3,))
    else:
        told = [
            (f"{one.score:.1f}", one.source, one.target, f"{one.pairs} of {one.source_pairs}",
             shown_renderings(one.renderings[1:4]))
            for one in found.terms
        ]  # fmt: skip
        print_table(("score", "source", "target", "pairs", "other renderings"), told, numeric=(0, 3))
    departures = f", {plural(len(found.departures), 'departure')}" if written.departures else ""
    note(f"{plural(len(found.terms), 'term')}{departures} of {plural(found.pairs, 'pair')}")


def _format(written: TermOutput) -> str:
    ending = written.output.suffix.removeprefix(".") if written.output else ""
    form = written.format or (ending if ending in FORMATS else TABLE)
    if written.output is not None and form == TABLE:
        raise UsageError(
            f"--output {written.output}: end its name in {_ENDINGS}, or name one of these formats with --format"
        )
    return form


def _write(output: Path | None, made: list[str]) -> None:
    from hierogram.daemon.compressing import written

    if output is None:
        for piece in made:
            sys.stdout.write(piece)
        return
    with written(output) as file:
        for piece in made:
            file.write(piece.encode())
