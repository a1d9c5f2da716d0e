"""The command that brings pairs in: ingest."""

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from hierogram.daemon.commands.common import (
    FOUND,
    AsJson,
    StoreUrl,
    interruptible,
    note,
    open_or_make,
    plural,
    say,
    say_json,
    store_url,
    was_given,
)
from hierogram.daemon.exceptions import UsageError
from hierogram.daemon.progress import progress

if TYPE_CHECKING:
    from hierogram.daemon.corpora.ingest import IngestReport
    from hierogram.daemon.treebanks.transformations import Transformations


def ingest(
    context: typer.Context,
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILES...",
            help="SOURCE TARGET [ALIGNMENT] line by line, or one file of `source ||| target [||| 0-0 1-2]` lines, of "
            'JSON lines {"source", "target", "alignment", "id"}, or of trees; gzip and zstd are undone; '
            "- is standard input.",
        ),
    ],
    format: Annotated[str, typer.Option(help="auto, parallel, bars, jsonl or tmx (auto by the name .tmx).")] = "auto",
    languages: Annotated[
        str | None, typer.Option(metavar="SRC,TGT", help="Languages to take from a TMX memory, as in fr,en.")
    ] = None,
    tokenize: Annotated[
        str | None,
        typer.Option(metavar="SRC,TGT", help="Divide running text into tokens, by the rules of two languages: fr,en."),
    ] = None,
    corpus: Annotated[str, typer.Option(metavar="NAME", help="Corpus that the pairs belong to.")] = "default",
    strict: Annotated[bool, typer.Option("--strict", help="Exit with 1 if any line was rejected.")] = False,
    trees: Annotated[
        bool,
        typer.Option("--trees", help="The file has trees in brackets, or packed forests; the store is one of trees."),
    ] = False,
    nbest: Annotated[
        bool,
        typer.Option("--nbest", help="Trees: n-best lists, a blank line after each; a list becomes a packed forest."),
    ] = False,
    functions: Annotated[
        bool, typer.Option("--functions", help="Trees: keep functional tags and indices, `NP-SBJ-1`.")
    ] = False,
    traces: Annotated[bool, typer.Option("--traces", help="Trees: keep empty elements, `-NONE-`.")] = False,
    unary: Annotated[str, typer.Option(help="Trees: keep chains of single labels, or collapse them, `S+VP`.")] = "keep",
    binarisation: Annotated[str, typer.Option(help="Trees: right, with labels `@NP`, or none.")] = "right",
    root: Annotated[str, typer.Option(metavar="LABEL", help="Trees: label over every tree.")] = "TOP",
    rare: Annotated[
        int, typer.Option(min=0, help="Trees: words seen that often or less become classes of unknown words.")
    ] = 1,
    as_json: AsJson = False,
    store: StoreUrl = None,
) -> None:
    """Store sentence pairs, word-aligned or not, or with --trees a treebank; the store is made if there is none.

    Pairs without an alignment are aligned when the store learns, together with what is there.
    Tokens are separated by spaces or tabs. Lines that cannot be stored are kept in the table rejected_lines with the
    reason, and the others go in. The same input offered again is stored once. A store's first trees settle for its life
    how trees are transformed and which words are known.
    """
    if nbest and not trees:
        raise UsageError("--nbest is for trees: hierogram ingest --trees --nbest lists.txt")
    if trees:
        if len(files) != 1 or was_given(context, "format"):
            raise UsageError("--trees takes one file, and no --format")
        options = {"functions", "traces", "unary", "binarisation", "root", "rare"}
        from hierogram.daemon.treebanks.transformations import Transformations

        how = Transformations(functions, traces, unary, binarisation, root, rare)
        given = how if any(was_given(context, name) for name in options) else None
        done = _ingest_trees(store_url(context, store), files[0], given, corpus, nbest)
        _end(done, strict, as_json, "forest" if nbest else "tree")
        return
    from hierogram.daemon.corpora.ingest import IngestProgress, Input
    from hierogram.daemon.corpora.ingest import ingest as take_in

    with (
        interruptible("what was stored stays; give the same files again to go on"),
        Input(files, format, two(languages, "--languages"), two(tokenize, "--tokenize")) as source,
    ):
        opened, made = open_or_make(store_url(context, store))
        with opened, progress("ingest", "lines") as shown:
            if made:
                note(f"{opened.url}: made a new store with the default settings (`hierogram init` takes others)")

            def tell(now: IngestProgress) -> None:
                said = f"{now.totals.rejected:,} rejected" if now.totals.rejected else ""
                shown.update(now.bytes_read, now.bytes_total, now.lines, said)

            done = take_in(opened, source, corpus, tell)
    _end(done, strict, as_json, "pair")


def _ingest_trees(url: str, path: str, how: "Transformations | None", corpus: str, lists: bool) -> "IngestReport":
    from hierogram.daemon.corpora.ingest import IngestProgress
    from hierogram.daemon.treebanks.ingest import ingest_trees
    from hierogram.samplers.grammar.settings import TREES
    from hierogram.storage.records import Settings

    with interruptible("what was stored stays; give the same file again to go on"):
        opened, made = open_or_make(url, Settings(grammar=TREES))
        with opened, progress("ingest", "trees") as shown:
            if made:
                note(f"{opened.url}: made a new store of trees (`hierogram init --grammar trees` takes settings)")

            def tell(now: IngestProgress) -> None:
                said = f"{now.totals.rejected:,} rejected" if now.totals.rejected else ""
                shown.update(now.bytes_read, now.bytes_total, now.lines, said)

            return ingest_trees(opened, path, how, corpus, tell, lists)


def _end(done: "IngestReport", strict: bool, as_json: bool, noun: str) -> None:
    if as_json:
        say_json(_as_json(done))
    else:
        _say(done, noun)
    if strict and done.totals.rejected:
        raise typer.Exit(FOUND)


def two(given: str | None, option: str) -> tuple[str, str] | None:
    """The two languages that an option names; raises `UsageError` where it does not name two."""
    if given is None:
        return None
    source, comma, target = given.partition(",")
    if not (source and comma and target) or "," in target:
        raise UsageError(f"{option} {given}: name two languages, source and target: {option} fr,en")
    return source, target


def _as_json(done: "IngestReport") -> dict[str, object]:
    return {
        "batch": done.batch,
        "corpus": done.corpus,
        "origin": done.origin,
        "format": done.format,
        "lines": done.lines,
        **asdict(done.totals),
        "reasons": dict(done.reasons.most_common()),
        "seconds": round(done.seconds, 3),
    }


def _say(done: "IngestReport", noun: str) -> None:
    for line in done.first_rejected:
        note(f"{done.origin}:{line.line}: {line.reason}: {line.message}")
    more = done.totals.rejected - len(done.first_rejected)
    if more:
        note(f"… and {plural(more, 'more rejected line')}: see the table rejected_lines")
    rate = done.lines / max(done.seconds, 1e-9)
    say(
        f"{plural(done.totals.accepted, noun)} stored, {done.totals.duplicates:,} known already, "
        f"{plural(done.totals.rejected, 'line')} rejected, in {done.seconds:.1f} s ({rate:,.0f} lines/s)"
    )
    for reason, number in done.reasons.most_common():
        say(f"  rejected {number:,}: {reason}")
