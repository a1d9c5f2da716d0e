"""Command that adds pairs to a store: ingest."""

from contextlib import ExitStack
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from hierogram.daemon.cli.common import (
    FOUND,
    files_or_input,
    interruptible,
    note,
    open_or_make,
    plural,
    print_json,
    store_url,
    was_given,
)
from hierogram.daemon.cli.flags import given, with_options
from hierogram.daemon.exceptions import UsageError
from hierogram.daemon.progress import progress
from hierogram.daemon.shared_options import CORPUS, AsJson, Languages, Tokenize
from hierogram.daemon.text.entries import Entries
from hierogram.daemon.text.treebanks.transformations import Transformations
from hierogram.storage.options import Option

if TYPE_CHECKING:
    from hierogram.daemon.text.ingest import IngestReport


MEMORY = "memory"
"""Format of a TMX file that replaces its corpus."""


@with_options
def ingest(
    context: typer.Context,
    files: Annotated[
        list[str] | None,
        Option(
            "SOURCE TARGET [ALIGNMENT] line by line, or one file of `source ||| target [||| 0-0 1-2]` lines, of "
            'the same with tabs, of JSON lines {"source", "target", "alignment", "id"}, or of trees; gzip and zstd are '
            "undone. Without a file, or with -, standard input.",
            metavar="[FILES]...",
            positional=True,
        ),
    ] = None,
    *,
    format: Annotated[
        str,
        Option(
            "auto, parallel, pipes (`source ||| target` lines), tsv, jsonl, tmx, memory (TMX that is all of its "
            "corpus: what it has not is withdrawn), burrito (a .json and two .tsv); "
            "tbx, csv or tsv with --dictionary."
        ),
    ] = "auto",
    languages: Languages = None,
    tokenize: Tokenize = None,
    corpus: Annotated[str, CORPUS] = "default",
    strict: Annotated[
        bool, Option("Exit with 1 if any line was rejected, not only where the input is damaged.")
    ] = False,
    trees: Annotated[
        bool, Option("The file has trees in brackets, or packed forests; the store is one of trees.")
    ] = False,
    nbest: Annotated[
        bool, Option("Trees: n-best lists, a blank line after each; a list becomes a packed forest.")
    ] = False,
    dictionary: Annotated[
        bool, Option("The file is a dictionary or a list of terms: TBX, CSV or TSV, told by its name or --format.")
    ] = False,
    entries: Entries,
    how: Transformations,
    as_json: AsJson = False,
) -> None:
    """Store sentence pairs, word-aligned or not, or with --trees a treebank; the store is made if there is none.

    Pairs without an alignment are aligned when the store learns, together with what is there.
    Tokens are separated by spaces or tabs. Lines that cannot be stored are kept in the table rejected_lines with the
    reason, and the others go in; an input of which too much cannot be stored is not taken. An input that is empty,
    whose files have different numbers of lines, or that has lines that are not UTF-8 ends with exit code 1; with
    --strict, any that has a rejected line. The same input offered again is stored once. Entries of a --dictionary are
    pairs of the corpus `dictionary`, unless another one is named; those of one word on each side have a link that is
    fixed. A store's first trees settle for its life how trees are transformed and which words are known.
    """
    files = files_or_input(files, "pairs")
    if dictionary:
        if len(files) != 1 or trees or tokenize is not None:
            raise UsageError("--dictionary takes one file, no --trees, and is divided into tokens as the store does")
    elif given(context, Entries):
        raise UsageError("--weight and --block are for entries: hierogram ingest --dictionary terms.tbx")
    if nbest and not trees:
        raise UsageError("--nbest is for trees: hierogram ingest --trees --nbest lists.txt")
    if trees and (len(files) != 1 or was_given(context, "format")):
        raise UsageError("--trees takes one file, and no --format")
    if format == MEMORY and (len(files) != 1 or trees or dictionary or tokenize is not None):
        raise UsageError("--format memory takes one TMX file, which is divided into tokens as the store does")
    from hierogram.daemon.library.store import open_input
    from hierogram.daemon.text.formats import TMX
    from hierogram.daemon.text.ingest import IngestReport
    from hierogram.daemon.text.texts import pipeline_of, two_languages
    from hierogram.samplers.grammar.settings import SYNCHRONOUS, TREES
    from hierogram.storage.records import Settings

    def tell(now: IngestReport) -> None:
        rejected = f"{now.totals.rejected:,} rejected" if now.totals.rejected else ""
        shown.update(now.bytes_read, now.bytes_total, now.lines, rejected)

    with ExitStack() as stack:
        again = "what was stored stays; give the same files again to go on"
        stack.enter_context(interruptible(again.replace("files", "file") if trees else again))
        named = two_languages(languages, "--languages") if languages is not None else None
        divided = two_languages(tokenize, "--tokenize") if tokenize is not None else None
        known = pipeline_of(Settings(), named, divided).languages or ()
        if trees:
            made_as = " of trees (`hierogram init --kind trees` takes settings)"
        else:
            made_as = f" of the languages {','.join(known)}" if known else ""
            made_as += " with the default settings (`hierogram init` takes others)"
        # Open the input first, so that no store is created if the input is invalid.
        source = stack.enter_context(
            open_input(
                files, format=TMX if format == MEMORY else format, dictionary=dictionary, trees=trees,
                nbest=nbest,
            )
        )  # fmt: skip
        grammar = TREES if trees else SYNCHRONOUS
        opened = stack.enter_context(open_or_make(store_url(context), grammar=grammar, languages=known))
        shown = stack.enter_context(progress("ingest", "trees" if trees else "lines"))
        if opened.made:
            note(f"{opened.url}: made a new store{made_as}")
        if format == MEMORY:
            synchronized = opened.synchronize(files[0], corpus, languages=named)
            note(f"{synchronized.kept:,} as they were, {synchronized.withdrawn:,} withdrawn")
            done = synchronized.added
            if not done.lines:
                return
        else:
            done = opened.add(
                source, corpus=corpus if was_given(context, "corpus") else None, languages=named, tokenize=divided,
                entries=entries if dictionary else None, progress=tell,
                transformations=how if given(context, Transformations) else None,
            )  # fmt: skip
    _end(done, strict, as_json, ("forest" if nbest else "tree") if trees else "pair")


def _end(done: "IngestReport", strict: bool, as_json: bool, noun: str) -> None:
    if as_json:
        print_json(
            {
                "batch": done.batch,
                "corpus": done.corpus,
                "origin": done.origin,
                "format": done.format,
                "lines": done.lines,
                **asdict(done.totals),
                "reasons": dict(done.reasons.most_common()),
                "notes": [one._asdict() for one in done.notes],
                "seconds": round(done.seconds, 3),
            }
        )
    else:
        _print(done, noun)
    for one in done.notes:
        note(f"{done.origin}: {one.code}: {one.text}")
    damage = _damage(done)
    if damage is not None:
        note(f"hierogram: {done.origin}: {damage}")
    if damage is not None or (strict and done.totals.rejected):
        raise typer.Exit(FOUND)


def _damage(done: "IngestReport") -> str | None:
    """Return what is wrong with the input as a whole, or None. Some of its lines may still be stored."""
    from hierogram.daemon.text.rejections import INVALID_UTF8, LENGTH_MISMATCH

    if not done.lines:
        return "is empty: there was nothing to store"
    if LENGTH_MISMATCH in done.reasons:
        return "its files have different numbers of lines, so pairs before the end may be wrong too: compare the files"
    if wrong := done.reasons[INVALID_UTF8]:
        return f"{plural(wrong, 'line')} of {done.lines:,} not UTF-8: convert the file, as by iconv -f latin1 -t utf8"
    return None


def _print(done: "IngestReport", noun: str) -> None:
    for run in done.first_rejected:
        lines = f"{run.line}" if run.lines == 1 else f"{run.line}-{run.last_line}"
        note(f"{done.origin}:{lines}: {run.reason}: {run.message}")
    more = done.totals.rejected - sum(run.lines for run in done.first_rejected)
    if more:
        note(f"… and {plural(more, 'more rejected line')}: see the table rejected_lines")
    rate = done.lines / max(done.seconds, 1e-9)
    print(
        f"{plural(done.totals.accepted, noun)} stored, "
        f"{done.totals.duplicates:,} known already in the corpus {done.corpus}, "
        f"{plural(done.totals.rejected, 'line')} rejected, in {done.seconds:.1f} s ({rate:,.0f} lines/s)"
    )
    for reason, number in done.reasons.most_common():
        print(f"  rejected {number:,}: {reason}")
