"""The command that brings pairs in: ingest."""

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Annotated

import typer

from hierogram.daemon.commands.common import (
    FOUND,
    AsJson,
    interruptible,
    note,
    open_or_make,
    plural,
    say,
    say_json,
    store_url,
    was_given,
)
from hierogram.daemon.commands.flags import given, with_options
from hierogram.daemon.corpora.rejections import Limits
from hierogram.daemon.exceptions import UsageError
from hierogram.daemon.progress import progress
from hierogram.daemon.treebanks.transformations import Transformations
from hierogram.storage.options import Option

if TYPE_CHECKING:
    from hierogram.daemon.corpora.ingest import IngestReport


DICTIONARY_CORPUS = "dictionary"
"""Corpus of entries, where none is named."""


@dataclass(frozen=True, slots=True)
class Reading:
    """Say how files are read: as which format, of which languages, into which corpus."""

    format: Annotated[
        str,
        Option(
            "auto, parallel, pipes (`source ||| target` lines), tsv, jsonl or tmx; tbx, csv or tsv with --dictionary."
        ),
    ] = "auto"
    languages: Annotated[str | None, Option("Languages to take from a TMX memory, as in fr,en.", metavar="SRC,TGT")] = (
        None
    )
    tokenize: Annotated[
        str | None,
        Option("Divide running text into tokens, by the rules of two languages: fr,en.", metavar="SRC,TGT"),
    ] = None
    corpus: Annotated[str, Option("Corpus that the pairs belong to.", metavar="NAME")] = "default"
    strict: Annotated[bool, Option("Exit with 1 if any line was rejected, not only where the input is damaged.")] = (
        False
    )
    trees: Annotated[bool, Option("The file has trees in brackets, or packed forests; the store is one of trees.")] = (
        False
    )
    nbest: Annotated[bool, Option("Trees: n-best lists, a blank line after each; a list becomes a packed forest.")] = (
        False
    )


@dataclass(frozen=True, slots=True)
class Counting:
    """Say how entries of a dictionary count."""

    dictionary: Annotated[
        bool, Option("The file is a dictionary or a list of terms: TBX, CSV or TSV, told by its name or --format.")
    ] = False
    weight: Annotated[int, Option("Dictionary: an entry counts as so many pairs.", least=1, most=1_000)] = 1
    block: Annotated[
        bool, Option("Dictionary: link all words of an entry with each other, where there are several.")
    ] = False


@with_options
def ingest(
    context: typer.Context,
    files: Annotated[
        list[str],
        typer.Argument(
            metavar="FILES...",
            help="SOURCE TARGET [ALIGNMENT] line by line, or one file of `source ||| target [||| 0-0 1-2]` lines, of "
            'the same with tabs, of JSON lines {"source", "target", "alignment", "id"}, or of trees; gzip and zstd are '
            "undone; - is standard input.",
        ),
    ],
    reading: Reading,
    entries: Counting,
    how: Transformations,
    limits: Limits,
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
    if entries.dictionary:
        if len(files) != 1 or reading.trees or reading.tokenize is not None:
            raise UsageError("--dictionary takes one file, no --trees, and is divided into tokens as the store does")
        if not was_given(context, "corpus"):
            reading = replace(reading, corpus=DICTIONARY_CORPUS)
    elif given(context, Counting):
        raise UsageError("--weight and --block are for entries: hierogram ingest --dictionary terms.tbx")
    if reading.nbest and not reading.trees:
        raise UsageError("--nbest is for trees: hierogram ingest --trees --nbest lists.txt")
    if reading.trees:
        if len(files) != 1 or was_given(context, "format"):
            raise UsageError("--trees takes one file, and no --format")
        settled = how if given(context, Transformations) else None
        done = _ingest_trees(store_url(context), files[0], settled, reading, limits)
        _end(done, reading.strict, as_json, "forest" if reading.nbest else "tree")
        return
    from hierogram.daemon.corpora.dictionaries import Dictionary
    from hierogram.daemon.corpora.ingest import IngestProgress
    from hierogram.daemon.corpora.ingest import ingest as take_in
    from hierogram.daemon.corpora.reading import Entries, IngestOptions, Input
    from hierogram.daemon.corpora.texts import pipeline_of, two_languages
    from hierogram.storage.records import Settings

    handling = IngestOptions(
        two_languages(reading.languages, "--languages") if reading.languages is not None else None,
        two_languages(reading.tokenize, "--tokenize") if reading.tokenize is not None else None,
        limits,
        Entries(entries.weight, entries.block) if entries.dictionary else None,
    )
    languages = pipeline_of(Settings(), handling.languages, handling.tokenize).languages
    with (
        interruptible("what was stored stays; give the same files again to go on"),
        Dictionary(files[0], reading.format, limits)
        if entries.dictionary
        else Input(files, reading.format, limits) as source,
    ):
        opened, made = open_or_make(store_url(context), Settings(languages=languages or ()))
        with opened, progress("ingest", "lines") as shown:
            if made:
                known = f" of the languages {','.join(languages)}" if languages else ""
                note(f"{opened.url}: made a new store{known} with the default settings (`hierogram init` takes others)")

            def tell(now: IngestProgress) -> None:
                said = f"{now.totals.rejected:,} rejected" if now.totals.rejected else ""
                shown.update(now.bytes_read, now.bytes_total, now.lines, said)

            done = take_in(opened, source, reading.corpus, tell, handling)
    _end(done, reading.strict, as_json, "pair")


def _ingest_trees(url: str, path: str, how: Transformations | None, reading: Reading, limits: Limits) -> "IngestReport":
    from hierogram.daemon.corpora.ingest import IngestProgress
    from hierogram.daemon.treebanks.ingest import ingest_open
    from hierogram.daemon.treebanks.reading import TreebankFile, open_treebank
    from hierogram.samplers.grammar.settings import TREES
    from hierogram.storage.records import Settings

    with (
        interruptible("what was stored stays; give the same file again to go on"),
        open_treebank(TreebankFile(path, reading.nbest, limits)) as treebank,
    ):
        opened, made = open_or_make(url, Settings(grammar=TREES))
        with opened, progress("ingest", "trees") as shown:
            if made:
                note(f"{opened.url}: made a new store of trees (`hierogram init --kind trees` takes settings)")

            def tell(now: IngestProgress) -> None:
                said = f"{now.totals.rejected:,} rejected" if now.totals.rejected else ""
                shown.update(now.bytes_read, now.bytes_total, now.lines, said)

            return ingest_open(opened, treebank, how, reading.corpus, tell)


def _end(done: "IngestReport", strict: bool, as_json: bool, noun: str) -> None:
    from hierogram.daemon.corpora.texts import LOOKS_DIVIDED

    if as_json:
        say_json(_as_json(done))
    else:
        _say(done, noun)
    if done.running:
        note(
            f"{done.origin}: most sentences end in a word with its full stop, which makes another word of it: "
            "`hierogram ingest --tokenize fr,en`, or a store made by `hierogram init --languages fr,en --tokenize`, "
            "divides text into tokens"
        )
    if done.divided:
        note(
            f"{done.origin}: {LOOKS_DIVIDED}, and are divided again, which spoils some (d' eau becomes d ' eau): "
            "withdraw them, and take them into a store without --tokenize, or give raw text"
        )
    damage = _damage(done)
    if damage is not None:
        note(f"hierogram: {done.origin}: {damage}")
    if damage is not None or (strict and done.totals.rejected):
        raise typer.Exit(FOUND)


def _damage(done: "IngestReport") -> str | None:
    """Return what is wrong with the input as a whole, though some of its lines may be stored; None: nothing."""
    from hierogram.daemon.corpora.rejections import INVALID_UTF8, LENGTH_MISMATCH

    if not done.lines:
        return "is empty: there was nothing to store"
    if LENGTH_MISMATCH in done.reasons:
        return "its files have different numbers of lines, so pairs before the end may be wrong too: compare the files"
    if wrong := done.reasons[INVALID_UTF8]:
        return f"{plural(wrong, 'line')} of {done.lines:,} not UTF-8: convert the file, as by iconv -f latin1 -t utf8"
    return None


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
    for run in done.first_rejected:
        lines = f"{run.line}" if run.lines == 1 else f"{run.line}-{run.last_line}"
        note(f"{done.origin}:{lines}: {run.reason}: {run.message}")
    more = done.totals.rejected - sum(run.lines for run in done.first_rejected)
    if more:
        note(f"… and {plural(more, 'more rejected line')}: see the table rejected_lines")
    rate = done.lines / max(done.seconds, 1e-9)
    say(
        f"{plural(done.totals.accepted, noun)} stored, {done.totals.duplicates:,} known already, "
        f"{plural(done.totals.rejected, 'line')} rejected, in {done.seconds:.1f} s ({rate:,.0f} lines/s)"
    )
    for reason, number in done.reasons.most_common():
        say(f"  rejected {number:,}: {reason}")
