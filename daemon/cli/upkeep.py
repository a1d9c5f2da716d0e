"""Commands that maintain a store: verify, repair, backup, withdraw."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hierogram.daemon.cli.common import (
    PROBLEMS_FOUND,
    interruptible,
    open_chosen_store,
    plural,
    print_json,
    print_note,
)
from hierogram.daemon.cli.flags import with_options
from hierogram.daemon.progress import progress
from hierogram.daemon.shared_options import AsJson
from hierogram.storage.options import Option

if TYPE_CHECKING:
    from hierogram.daemon.learning.repairing import RepairReport

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
    """Repair a store by recounting its derivations and links. Exit with 1 if some problems cannot be repaired.

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
    for number, change in (
        (report.released_pairs, f"{one} no longer recorded as damaged|{many} no longer recorded as damaged"),
        (report.resumed_pairs, f"{one} resumed from its derivation|{many} resumed from their derivations"),
        (
            report.pair_positions,
            "row of pair_positions or pair_scores added or removed|"
            "rows of pair_positions or pair_scores added or removed",
        ),
        (report.rules_corrected, "rule corrected|rules corrected"),
        (report.rules_added, "rule added|rules added"),
        (report.rules_removed, "rule removed|rules removed"),
        (report.aligner_counts, "count of the aligner corrected|counts of the aligner corrected"),
        (report.word_counts, "word recounted|words recounted"),
        (report.rule_words, "rule reindexed by its words|rules reindexed by their words"),
        (report.pair_word_blocks, f"block of {many} reindexed by its words|blocks of {many} reindexed by their words"),
        (report.rule_keys, "rule reindexed by its key|rules reindexed by their keys"),
        (report.corpora_and_batches, "total of a corpus or batch corrected|totals of corpora and batches corrected"),
    ):
        if number:
            print(f"  {number:,} {change.split('|')[number != 1]}")
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
    with (
        interruptible("some pairs are already withdrawn: run the command again to continue"),
        open_chosen_store(context) as opened,
    ):
        kind = opened.grammar_kind()
        with progress("withdraw", kind.plural) as bar:
            number, holder = opened.withdraw(
                ids or (), corpus=corpus, origin=origin, external_ids=external_id or (), progress=bar.update
            )
    if as_json:
        print_json({"pairs": number, "done": holder is None})
    elif holder:
        print(
            f"{plural(number, kind.singular)} will be withdrawn by `{holder.command}` (process {holder.pid} on "
            f"{holder.host})"
        )
    else:
        print(f"{plural(number, kind.singular)} withdrawn")
