"""Command that adds pairs to a store: ingest."""

from contextlib import ExitStack
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from hierogram.daemon.cli.common import (
    PROBLEMS_FOUND,
    files_or_input,
    interruptible,
    open_or_create,
    plural,
    print_json,
    print_note,
    store_url,
    was_given,
)
from hierogram.daemon.cli.flags import given_options, with_options
from hierogram.daemon.exceptions import UsageError
from hierogram.daemon.progress import progress
from hierogram.daemon.shared_options import CORPUS, AsJson, DictionaryOptions, Languages
from hierogram.daemon.text.treebanks.transformations import Transformations
from hierogram.storage.options import Option

if TYPE_CHECKING:
    from hierogram.daemon.text.ingest import IngestReport


TRANSLATION_MEMORY = "memory"
"""Value of `--format` for a TMX file that replaces the whole corpus."""


@with_options
def ingest(
    context: typer.Context,
    files: Annotated[
        list[str] | None,
        Option(
            "SOURCE TARGET [ALIGNMENT], line by line; or one file of `source ||| target [||| 0-0 1-2]` lines, "
            'tab-separated lines, JSON lines {"source", "target", "alignment", "id"}, or trees. Compressed files are '
            "decompressed. Default: standard input (-).",
            metavar="[FILES]...",
            positional=True,
        ),
    ] = None,
    *,
    format: Annotated[
        str,
        Option(
            "Input format: auto, parallel (two or three files), pipes (`source ||| target` lines), tsv, jsonl, tmx, "
            "memory (a TMX file with the whole corpus; pairs not in the file are withdrawn) or burrito (one .json and "
            "two .tsv files). With --dictionary: tbx, csv or tsv."
        ),
    ] = "auto",
    languages: Languages = None,
    corpus: Annotated[str, CORPUS] = "default",
    strict: Annotated[bool, Option("Exit with 1 if any line was rejected, not only if the input is damaged.")] = False,
    trees: Annotated[bool, Option("Read bracketed trees or packed forests into a store of trees.")] = False,
    nbest: Annotated[
        bool, Option("With --trees: read n-best lists separated by blank lines. Each list becomes a packed forest.")
    ] = False,
    dictionary: Annotated[
        bool, Option("Read a dictionary or a list of terms: TBX, CSV or TSV, by its suffix or --format.")
    ] = False,
    dictionary_options: DictionaryOptions,
    transformations: Transformations,
    as_json: AsJson = False,
) -> None:
    """Store sentence pairs or trees. Creates the store if it does not exist.

    Pairs without word alignments are aligned by `hierogram learn` or the daemon. The first pairs without links
    determine whether the store takes running text, which it tokenizes, or tokens separated by spaces. Invalid lines are
    rejected and recorded in the table rejected_lines. If too many lines are invalid, the command stops with exit code
    3; pairs stored until then are kept. Exit with 1 if the input is empty, its files have different numbers of lines,
    or a line is not UTF-8; with --strict, also if any line was rejected. Ingesting the same input again adds nothing.

    With --dictionary, entries become pairs of the corpus `dictionary`, or of --corpus. Entries with one word on each
    side get a fixed link. The first trees of a store determine its tree transformations and its known words.
    """
    files = files_or_input(files, "pairs")
    if dictionary:
        if len(files) != 1 or trees:
            raise UsageError("--dictionary requires exactly one file, without --trees")
    elif given_options(context, DictionaryOptions):
        raise UsageError("--weight and --block require --dictionary, as in hierogram ingest --dictionary terms.tbx")
    if nbest and not trees:
        raise UsageError("--nbest requires --trees, as in hierogram ingest --trees --nbest lists.txt")
    if trees and (len(files) != 1 or was_given(context, "format")):
        raise UsageError("--trees requires exactly one file, without --format")
    if format == TRANSLATION_MEMORY and (len(files) != 1 or trees or dictionary):
        raise UsageError("--format memory requires exactly one TMX file, without --trees and --dictionary")
    from hierogram.daemon.library.store import open_input
    from hierogram.daemon.text.formats import TMX
    from hierogram.daemon.text.ingest import IngestReport
    from hierogram.daemon.text.pipeline import two_languages
    from hierogram.samplers.grammar.settings import SYNCHRONOUS, TREES

    def report_progress(current: IngestReport) -> None:
        rejected = f"{current.totals.rejected:,} rejected" if current.totals.rejected else ""
        bar.update(current.bytes_read, current.bytes_total, current.lines, rejected)

    with ExitStack() as stack:
        stack.enter_context(interruptible("stored pairs are kept: run the command again to continue"))
        given_languages = two_languages(languages, "--languages") if languages is not None else None
        text_languages = given_languages or ()
        if trees:
            description = " of trees (to choose settings, run `hierogram init --kind trees` before the first ingest)"
        else:
            description = f" for the languages {','.join(text_languages)}" if text_languages else ""
            description += " with the default settings (to choose others, run `hierogram init` before the first ingest)"
        # Open the input first, so that no store is created if the input is invalid.
        source = stack.enter_context(
            open_input(
                files, format=TMX if format == TRANSLATION_MEMORY else format, dictionary=dictionary, trees=trees,
                nbest=nbest,
            )
        )  # fmt: skip
        grammar = TREES if trees else SYNCHRONOUS
        opened = stack.enter_context(open_or_create(store_url(context), grammar=grammar, languages=text_languages))
        bar = stack.enter_context(progress("ingest", "trees" if trees else "lines"))
        if opened.created:
            print_note(f"{opened.url}: created a store{description}")
        if format == TRANSLATION_MEMORY:
            synchronized = opened.synchronize(files[0], corpus, languages=given_languages)
            print_note(f"{synchronized.kept:,} unchanged, {synchronized.withdrawn:,} withdrawn")
            ingested = synchronized.added
            if not ingested.lines:
                return
        else:
            ingested = opened.add(
                source, corpus=corpus if was_given(context, "corpus") else None, languages=given_languages,
                dictionary_options=dictionary_options if dictionary else None, progress=report_progress,
                transformations=transformations if given_options(context, Transformations) else None,
            )  # fmt: skip
    _print_report(ingested, strict, as_json, ("forest" if nbest else "tree") if trees else "pair")


def _print_report(report: "IngestReport", strict: bool, as_json: bool, noun: str) -> None:
    from hierogram.daemon.text.rejections import INVALID_UTF8, LENGTH_MISMATCH

    if as_json:
        print_json(
            {
                "batch": report.batch,
                "corpus": report.corpus,
                "origin": report.origin,
                "format": report.format,
                "lines": report.lines,
                **asdict(report.totals),
                "reasons": dict(report.reasons.most_common()),
                "notes": [asdict(note) for note in report.notes],
                "seconds": round(report.seconds, 3),
            }
        )
    else:
        for run in report.first_rejected:
            lines = f"{run.line}" if run.lines == 1 else f"{run.line}-{run.last_line}"
            print_note(f"{report.origin}:{lines}: {run.reason}: {run.message}")
        unlisted = report.totals.rejected - sum(run.lines for run in report.first_rejected)
        if unlisted:
            print_note(f"… and {plural(unlisted, 'more rejected line')}: see the table rejected_lines")
        rate = report.lines / max(report.seconds, 1e-9)
        print(
            f"{plural(report.totals.accepted, noun)} stored, {plural(report.totals.duplicates, 'duplicate')} in the "
            f"corpus {report.corpus}, {plural(report.totals.rejected, 'line')} rejected, in {report.seconds:.1f} s "
            f"({rate:,.0f} lines/s)"
        )
        for reason, number in report.reasons.most_common():
            print(f"  rejected {number:,}: {reason}")
    for note in report.notes:
        print_note(f"{report.origin}: {note}")
    damage = None
    if LENGTH_MISMATCH in report.reasons:
        damage = "the files have different numbers of lines, so earlier pairs may also be wrong: compare the files"
    elif invalid_lines := report.reasons[INVALID_UTF8]:
        lines = f"{plural(invalid_lines, 'line')} of {report.lines:,}"
        damage = f"invalid UTF-8 in {lines}: convert the file, for example with iconv -f latin1 -t utf8"
    if damage is not None:
        print_note(f"hierogram: {report.origin}: {damage}")
    if damage is not None or not report.lines or (strict and report.totals.rejected):
        raise typer.Exit(PROBLEMS_FOUND)
