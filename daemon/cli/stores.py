"""Commands for whole stores: init, ingest, status, events, verify, repair, backup, withdraw."""

import json
import socket
import sys
import time
from contextlib import ExitStack, suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hierogram.daemon.cli.common import (
    PROBLEMS_FOUND,
    files_or_input,
    interruptible,
    open_chosen_store,
    open_or_create,
    plural,
    print_json,
    print_note,
    store_url,
    was_given,
)
from hierogram.daemon.cli.flags import given_options, with_options
from hierogram.daemon.exceptions import UsageError
from hierogram.daemon.library.options import AFTER_EVENT, KINDS
from hierogram.daemon.memory import resident_bytes
from hierogram.daemon.progress import progress
from hierogram.daemon.shared_options import CORPUS, LIMIT, AsJson, DictionaryOptions, Languages
from hierogram.daemon.text.treebanks.transformations import Transformations
from hierogram.storage.options import Option
from hierogram.storage.records.settings import Settings

if TYPE_CHECKING:
    from hierogram.daemon.learning.repairing import RepairReport
    from hierogram.daemon.text.ingest import IngestReport
    from hierogram.storage.records.operations import Event


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
        input_format = TMX if format == TRANSLATION_MEMORY else format
        opened_input = open_input(files, format=input_format, dictionary=dictionary, trees=trees, nbest=nbest)
        source = stack.enter_context(opened_input)
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
        fields = {name: getattr(report, name) for name in ("batch", "corpus", "origin", "format", "lines")}
        reasons, notes = dict(report.reasons.most_common()), [asdict(note) for note in report.notes]
        fields |= asdict(report.totals) | {"reasons": reasons, "notes": notes, "seconds": round(report.seconds, 3)}
        print_json(fields)
    else:
        for run in report.first_rejected:
            lines = f"{run.line}" if run.lines == 1 else f"{run.line}-{run.last_line}"
            print_note(f"{report.origin}:{lines}: {run.reason}: {run.message}")
        unlisted = report.totals.rejected - sum(run.lines for run in report.first_rejected)
        if unlisted:
            print_note(f"… and {plural(unlisted, 'more rejected line')}: see the table rejected_lines")
        totals, rate = report.totals, report.lines / max(report.seconds, 1e-9)
        duplicates = f"{plural(totals.duplicates, 'duplicate')} in the corpus {report.corpus}"
        time = f"in {report.seconds:.1f} s ({rate:,.0f} lines/s)"
        rejected = f"{plural(totals.rejected, 'line')} rejected"
        print(f"{plural(totals.accepted, noun)} stored, {duplicates}, {rejected}, {time}")
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


@with_options
def init(
    context: typer.Context,
    settings: Settings,
    upgrade: Annotated[bool, Option("Upgrade an older store to the schema of this version.")] = False,
) -> None:
    """Create a store. Settings cannot be changed later. With --upgrade, upgrade an older store instead.

    With `--model dirichlet`, the default schedule is `annealed`: the temperature falls from 10 to 1 over 280 sweeps.
    """
    from hierogram.daemon.library.store import open
    from hierogram.daemon.text.languages import segmenter_advice

    chosen, url = given_options(context, Settings), store_url(context)
    if upgrade:
        if chosen:
            reason = "because the settings of a store cannot be changed"
            raise UsageError(f"--upgrade cannot be combined with settings, {reason}")
        with open(url, upgrade=True) as opened:
            before, schema = opened.upgraded_from, opened.status().schema
        if before is None:
            print(f"the store already has schema {schema}; nothing was changed")
        else:
            print(f"upgraded the store from schema {before} to {schema}")
        return
    chosen_settings = {name: getattr(settings, name) for name in chosen}
    with open(url, create=True, **chosen_settings) as opened:
        print(f"{opened.url}: {'created' if opened.created else 'already exists; nothing was changed'}")
        stored = opened.settings()
        for name, value in asdict(stored).items():
            # Omit orthographies and word parts, because they are long.
            if name not in ("orthographies", "word_parts"):
                shown = ",".join(value) or "(not known)" if isinstance(value, tuple) else value
                print(f"  {name:<17}{'(determined by the first text)' if shown is None else shown}")
        if stored.languages and stored.tokenize is not False:
            try:
                advice = segmenter_advice(stored.languages)
            except UsageError as error:
                advice = str(error)
            if advice:
                print_note(advice)


@with_options
def status(context: typer.Context, as_json: AsJson = False) -> None:
    """Show the size of the store and the progress of learning.

    Rules in use occur in the current derivations of the pairs. Expected uses are averages over sweeps. The table of
    rules also contains rules that occur only in minimal derivations.
    """
    with open_chosen_store(context) as opened:
        current = opened.status()
        settings, kind = opened.settings(), opened.grammar_kind()
        writer = opened.writer()
    # Report no memory for a writer on another machine, because its process id means nothing here.
    memory = resident_bytes(writer.pid) if writer and writer.host == socket.gethostname() else None
    if as_json:
        names = ("command", "host", "pid", "acquired_at")
        writer_json = writer and {name: str(getattr(writer, name)) for name in names} | {"memory_bytes": memory}
        lag = {"pairs": sum(current.unsettled.values()), "states": current.unsettled}
        print_json({**asdict(current), "lag": lag, "settings": asdict(settings), "writer": writer_json})
        return
    states = ", ".join(f"{number:,} {state}" for state, number in current.pairs.items())
    likelihood = "not known yet" if current.last_log_likelihood is None else f"{current.last_log_likelihood:,.1f}"
    lines = [
        ("store", f"{current.url} (schema {current.schema}, position {current.position:,})"),
        (kind.plural, f"{sum(current.pairs.values()):,} ({states})"),
        *((f"  {name}", f"{number:,}") for name, number in current.corpora.items()),
        ("lag", f"{plural(sum(current.unsettled.values()), kind.singular)} not settled"),
        ("rules in use", f"{current.rules_in_use:,}, {current.rule_tokens:,} uses"),
        ("expected uses", f"{current.expected_tokens:,.0f} of {plural(current.rules_expected, 'rule')}"),
        ("rules in table", f"{current.rules_stored:,}"),
        ("sweeps", f"{current.sweeps:,}"),
        ("log-likelihood", likelihood),
        ("rejected lines", f"{current.rejected_lines:,}"),
    ]
    if damaged := current.damaged_pairs:
        lines.append((f"damaged {kind.plural}", f"{damaged:,}: run `hierogram repair`"))
    if current.failed_files:
        lines.append(("failed files", f"{current.failed_files:,}"))
    if failed := current.deliveries.get("failed", 0):
        lines.append(("webhooks", f"{failed:,} recent deliveries failed"))
    if current.wal_bytes is not None:
        lines.append(("log", f"{current.wal_bytes / 1e6:,.1f} MB (write-ahead log)"))
    if writer:
        size = "" if memory is None else f", {memory / 1e6:,.0f} MB of memory"
        holder = f"{writer.command}, process {writer.pid} on {writer.host}{size}"
        lines.append(("writer", f"{holder}, since {writer.acquired_at:%Y-%m-%d %H:%M:%S} UTC"))
    for name, text in lines:
        print(f"{name:<16}{text}")


_POLL_SECONDS = 1.0
_PAGE_SIZE = 1_000
_KEEP = Option(
    "Set the number of events that the store keeps.", min=1, max=10_000_000, shown="unchanged, initially 100,000"
)


@with_options
def events(
    context: typer.Context,
    after: Annotated[int | None, AFTER_EVENT] = None,
    limit: Annotated[int, LIMIT] = 1_000,
    kinds: Annotated[tuple[str, ...], KINDS] = (),
    follow: Annotated[bool, Option("Wait for new events until Ctrl-C.")] = False,
    keep: Annotated[int | None, _KEEP] = None,
    as_json: AsJson = False,
) -> None:
    """List events of the store and of the daemon.

    Events are changes of rules, rejected lines, failed files, damaged pairs, exports, and failures of the daemon. Pass
    the number of the last event to --after to continue from there. --json prints one object per line. Old events are
    deleted. If events after the given number were deleted, their count is printed on standard error.
    """
    with open_chosen_store(context) as opened, suppress(KeyboardInterrupt):
        if keep is not None:
            opened.store.set_event_limit(keep)
            print_note(f"the store now keeps {plural(keep, 'event')}")
        while limit > 0:
            page = opened.events(after, min(limit, _PAGE_SIZE), kinds)
            if page.missed:
                print_note(f"{plural(page.missed, 'event')} already deleted: the oldest stored event is {page.oldest}")
            for event in page.events:
                print(json.dumps(event.plain(), ensure_ascii=False) if as_json else _format_event(event))
            # Flush so that readers of a pipe receive each event at once.
            sys.stdout.flush()
            limit -= len(page.events)
            if len(page.events) == _PAGE_SIZE:
                after = page.events[-1].id
            elif follow and limit > 0:
                after = max(page.last, after or 0)
                time.sleep(_POLL_SECONDS)
            else:
                return


def _format_event(event: "Event") -> str:
    head = f"{event.id}  {event.at:%Y-%m-%d %H:%M:%S}  {event.kind}"
    if event.rule_id is not None:
        before = "" if event.expected_uses_before is None else f"{event.expected_uses_before:.1f} → "
        uses = f"{before}{event.expected_uses_now:.1f} (± {event.standard_error:.1f})"
        return f"{head}  {event.source} ||| {event.target}  {uses}"
    detail = " ".join(f"{name}={value}" for name, value in (event.detail or {}).items())
    return f"{head}  {'' if event.count is None else f'{event.count:,} '}{detail}"


_MEGABYTE = 1_000_000
_MAX_LISTED = 20


@with_options
def verify(context: typer.Context, as_json: AsJson = False) -> None:
    """Recount all rules and links, and check all tables. Exit with 1 if problems are found."""
    with open_chosen_store(context) as opened:
        kind = opened.grammar_kind()
        with progress("verify", kind.plural) as bar:
            result = opened.verify(bar.update)
    advice = None
    if result.problems:
        advice = "run `hierogram repair`, which recounts all derivations, or restore a backup"
        if result.damaged_file:
            advice = "`hierogram repair` cannot fix this: restore a backup"
        advice += " (`hierogram backup FILE` creates backups)"
    if as_json:
        print_json({**asdict(result), "advice": advice})
    else:
        for problem in result.problems:
            print(problem)
        if result.more_problems:
            print(f"… and {plural(result.more_problems, 'more problem')}")
        checked = f"{plural(result.pairs, kind.singular)} with a derivation, {plural(result.rules, 'stored rule')}"
        if not result.problems:
            uses = f"{result.rule_tokens:,} uses, {result.expected_tokens:,.0f} expected uses"
            print(f"no problems found: {checked} recounted, {uses}")
            if result.human_links:
                print(f"{plural(result.human_links, 'human link')} respected by the alignments")
    if result.problems:
        number = plural(len(result.problems) + result.more_problems, "problem")
        print_note(f"hierogram: the store is damaged: {number}: {advice}")
        raise typer.Exit(PROBLEMS_FOUND)


@with_options
def repair(
    context: typer.Context,
    dry_run: Annotated[bool, Option("Show the changes without making them.")] = False,
    as_json: AsJson = False,
) -> None:
    """Repair a store by recounting derivations and links. Exit with 1 if some problems remain.

    Texts and readable derivations, alignments and links are assumed to be correct. A pair with an unreadable derivation
    is learned from scratch, and a pair with an unreadable alignment is aligned again. The repair is one transaction: if
    it is interrupted, nothing changes. Other writers wait for its end.
    """
    with open_chosen_store(context) as opened:
        kind = opened.grammar_kind()
        with progress("repair", kind.plural) as bar:
            report = opened.repair(dry_run=dry_run, progress=bar.update)
    if as_json:
        print_json({**asdict(report), "dry_run": dry_run})
    else:
        _print_changes(report, dry_run, kind.singular, kind.plural)
    if report.remaining_problems:
        problems = plural(len(report.remaining_problems), "problem")
        print_note(f"hierogram: {problems} cannot be repaired: restore a backup")
        raise typer.Exit(PROBLEMS_FOUND)


def _print_changes(report: "RepairReport", dry_run: bool, one: str, many: str) -> None:
    if not report.changed and not report.remaining_problems:
        print("no problems found: nothing to repair")
    elif report.changed:
        print("would be repaired (dry run):" if dry_run else "repaired:")
    for number, noun, change in (
        (report.released_pairs, one, "no longer recorded as damaged"),
        (report.resumed_pairs, one, "resumed from stored derivations"),
        (report.pair_positions, "row", "of pair_positions or pair_scores added or removed"),
        (report.rules_corrected, "rule", "corrected"),
        (report.rules_added, "rule", "added"),
        (report.rules_removed, "rule", "removed"),
        (report.aligner_counts, "count", "of the aligner corrected"),
        (report.word_counts, "word", "recounted"),
        (report.rule_words, "rule", "reindexed by words"),
        (report.pair_word_blocks, "block", f"of {many} reindexed by words"),
        (report.rule_keys, "rule", "reindexed by key"),
        (report.corpora_and_batches, "total", "of corpora and batches corrected"),
    ):
        if number:
            print(f"  {plural(number, noun)} {change}")
    for name, (before, after) in report.totals.items():
        print(f"  {name}: {before:,} → {after:,}")
    for pairs, change in (
        (report.reset_pairs, "reset because of a missing or invalid derivation, to be learned from scratch"),
        (report.unaligned_pairs, "marked for alignment because of unreadable links"),
    ):
        if pairs:
            unlisted = len(pairs) - _MAX_LISTED
            rest = f", and {unlisted:,} more (use --json to list all)" if unlisted > 0 else ""
            print(f"  {plural(len(pairs), one)} {change}: {', '.join(map(str, pairs[:_MAX_LISTED]))}{rest}")
    for problem in report.remaining_problems[:_MAX_LISTED]:
        print(f"not repaired: {problem}")
    if len(report.remaining_problems) > _MAX_LISTED:
        print(f"… and {plural(len(report.remaining_problems) - _MAX_LISTED, 'more problem')}")


@with_options
def backup(
    context: typer.Context,
    file: Annotated[Path, Option("File to write.", metavar="FILE", positional=True)],
    force: Annotated[bool, Option("Replace an existing file.")] = False,
    as_json: AsJson = False,
) -> None:
    """Copy an SQLite store to a file, which is itself a store. A daemon may write at the same time.

    For a store on Postgres, the error message contains the pg_dump and pg_restore commands to use instead.
    """
    with open_chosen_store(context) as opened, progress("backup", "MB") as bar:
        size = opened.back_up(file, lambda done, total: bar.update(done, total, done // _MEGABYTE), force=force)
    if as_json:
        print_json({"store": opened.url, "file": str(file), "bytes": size})
    else:
        print(f"{file}: {size / _MEGABYTE:,.1f} MB, copied from {opened.url}; open it with --store sqlite:///{file}")


@with_options
def withdraw(
    context: typer.Context,
    ids: Annotated[list[int] | None, Option("Ids of the pairs.", metavar="[ID]...", positional=True)] = None,
    corpus: Annotated[str | None, Option("Withdraw the pairs of this corpus.", metavar="NAME")] = None,
    origin: Annotated[
        str | None, Option("Withdraw the pairs of this input, named as in ingest_batches.origin.", metavar="FILE")
    ] = None,
    external_id: Annotated[
        list[str] | None, Option("Withdraw the pairs with this external id; may be repeated.", metavar="ID")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Remove pairs from the store, with their derivations and counts.

    Select pairs either by IDs, or by --corpus, --origin and --external-id, which must all match. A running daemon
    removes the pairs within seconds. Withdrawn pairs can be ingested again.
    """
    consequence = "some pairs are already withdrawn: run the command again to continue"
    with interruptible(consequence), open_chosen_store(context) as opened:
        kind = opened.grammar_kind()
        with progress("withdraw", kind.plural) as bar:
            number, holder = opened.withdraw(
                ids or (), corpus=corpus, origin=origin, external_ids=external_id or (), progress=bar.update
            )
    if as_json:
        print_json({"pairs": number, "done": holder is None})
    elif holder:
        process = f"`{holder.command}` (process {holder.pid} on {holder.host})"
        print(f"{plural(number, kind.singular)} will be withdrawn by {process}")
    else:
        print(f"{plural(number, kind.singular)} withdrawn")
