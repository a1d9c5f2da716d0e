"""Commands that maintain a store: verify, repair, backup, withdraw."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hierogram.daemon.cli.common import (
    FOUND,
    chosen_store,
    interruptible,
    note,
    plural,
    print_json,
)
from hierogram.daemon.cli.flags import with_options
from hierogram.daemon.progress import progress
from hierogram.daemon.shared_options import AsJson, Corpus
from hierogram.storage.options import Option

if TYPE_CHECKING:
    from hierogram.daemon.learning.repairing import RepairReport
    from hierogram.samplers.grammar.kinds import Notation


_MEGABYTE = 1_000_000
_NAMED = 20
"""Maximum number of pairs and of problems that are listed."""

_MEND = (
    "run `hierogram repair`, which counts everything again from the derivations; the other way is a backup from before"
)
_GO_BACK = "`hierogram repair` cannot mend this: go back to a backup from before"
_HOW = "`hierogram backup FILE` makes a backup"


@with_options
def verify(context: typer.Context, as_json: AsJson = False) -> None:
    """Count every rule again from the derivations and check all tables; exit with 1 where something is wrong."""
    with chosen_store(context) as opened:
        kind = opened.notation()
        with progress("verify", kind.many) as shown:
            found = opened.verify(lambda pairs, total: shown.update(pairs, total, pairs))
    advice = f"{_GO_BACK if found.damaged_file else _MEND} ({_HOW})" if found.problems else None
    if as_json:
        print_json({**asdict(found), "advice": advice})
    else:
        for problem in found.problems:
            print(problem)
        if found.more_problems:
            print(f"… and {plural(found.more_problems, 'more problem')}")
        checked = f"{plural(found.pairs, kind.one)} with a derivation and {plural(found.rules, 'stored rule')}"
        if not found.problems:
            uses = f"{found.rule_tokens:,} uses and {found.expected_tokens:,.0f} expected ones"
            print(f"sound: {checked} counted again, {uses}")
            rare = ", ".join(f"{uses:,.0f} of rules with {name}" for name, uses in found.left_out.items() if uses)
            if rare:
                print(f"expected of rules that are too rare to be counted, by nonterminals: {rare}")
            if found.human_links:
                print(f"alignments keep to {plural(found.human_links, 'human link')}")
    if found.problems:
        number = plural(len(found.problems) + found.more_problems, "problem")
        note(f"hierogram: the store is damaged: {number}: {advice}")
        raise typer.Exit(FOUND)


@with_options
def repair(
    context: typer.Context,
    dry_run: Annotated[bool, Option("Say what would change, and change nothing.")] = False,
    as_json: AsJson = False,
) -> None:
    """Mend a store: make all counts those of its derivations; exit with 1 where something cannot be repaired.

    The texts of pairs, their alignments and links are taken as true. A pair whose derivation cannot be read is learned
    anew. All is one transaction: if it is interrupted, the store is as it was. Others wait for it who want to write.
    """
    with chosen_store(context) as opened:
        kind = opened.notation()
        with progress("repair", kind.many) as shown:
            done = opened.repair(keep=not dry_run, progress=lambda pairs, total: shown.update(pairs, total, pairs))
    if as_json:
        print_json({**asdict(done), "dry_run": dry_run})
    else:
        _print_changes(done, dry_run, kind)
    if done.left:
        note(f"hierogram: {plural(len(done.left), 'problem')} cannot be repaired: go back to a backup from before")
        raise typer.Exit(FOUND)


def _print_changes(done: "RepairReport", dry_run: bool, kind: "Notation") -> None:
    one, many = kind.one, kind.many
    if not done.changed and not done.left:
        print("sound: there is nothing to repair")
    elif done.changed:
        print("this would change, nothing was changed:" if dry_run else "repaired:")
    for number, what in (
        (done.put_back, f"{one} no longer set aside|{many} no longer set aside"),
        (done.going_on, f"{one} goes on from its derivation|{many} go on from their derivations"),
        (done.resampled, f"time of a {one}'s last sampling corrected|times of {many}' last sampling corrected"),
        (done.rules_corrected, "rule corrected|rules corrected"),
        (done.rules_added, "rule added|rules added"),
        (done.rules_removed, "rule removed|rules removed"),
        (done.aligner_counts, "count of the aligner corrected|counts of the aligner corrected"),
        (done.words_counted, "word counted anew|words counted anew"),
        (done.words_of_rules, "rule with its words noted anew|rules with their words noted anew"),
        (done.blocks_of_pairs, "block of pairs with its words noted anew|blocks of pairs with their words noted anew"),
        (done.rule_keys, "rule found by its key again|rules found by their keys again"),
        (done.corpora_and_batches, "total of a corpus or batch|totals of corpora and batches"),
    ):
        if number:
            one, several = what.split("|")
            print(f"  {number:,} {one if number == 1 else several}")
    for name, (before, after) in done.totals.items():
        print(f"  {name} was {before:,}, is {after:,}")
    if done.begun_anew:
        named = ", ".join(map(str, done.begun_anew[:_NAMED]))
        more = len(done.begun_anew) - _NAMED
        rest = f", and {more:,} more (--json names all)" if more > 0 else ""
        print(
            f"  {plural(len(done.begun_anew), 'pair')} without a readable derivation, to be learned anew: {named}{rest}"
        )
    if done.aligned_again:
        named = ", ".join(map(str, done.aligned_again[:_NAMED]))
        rest = ", …" if len(done.aligned_again) > _NAMED else ""
        print(f"  {plural(len(done.aligned_again), 'pair')} without a readable alignment, to be aligned: {named}{rest}")
    for problem in done.left[:_NAMED]:
        print(f"not repaired: {problem}")
    if len(done.left) > _NAMED:
        print(f"… and {plural(len(done.left) - _NAMED, 'more problem')}")


@with_options
def backup(
    context: typer.Context,
    file: Annotated[Path, Option("Where to write the copy.", metavar="FILE", positional=True)],
    force: Annotated[bool, Option("Replace the file if it is there.")] = False,
    as_json: AsJson = False,
) -> None:
    """Copy a store to a file, whole or not at all, while others write; the copy is a store that can be used as it is.

    For a store on Postgres it says which commands of Postgres do that.
    """
    with chosen_store(context) as opened, progress("backup", "MB") as shown:
        size = opened.back_up(file, lambda done, total: shown.update(done, total, done // _MEGABYTE), force=force)
    if as_json:
        print_json({"store": opened.url, "file": str(file), "bytes": size})
    else:
        print(f"{file}: {size / _MEGABYTE:,.1f} MB, a copy of {opened.url}; use it with --store sqlite:///{file}")


@with_options
def withdraw(
    context: typer.Context,
    ids: Annotated[list[int] | None, Option("Numbers of pairs.", metavar="[ID]...", positional=True)] = None,
    corpus: Corpus = None,
    origin: Annotated[
        str | None, Option("All pairs of this input, named as in ingest_batches.origin.", metavar="FILE")
    ] = None,
    external_id: Annotated[list[str] | None, Option("Pairs with this identifier of yours.", metavar="ID")] = None,
    as_json: AsJson = False,
) -> None:
    """Take pairs out of the store, with their derivations and all that they count.

    Several options together mean the pairs that meet all of them. Where a daemon runs, it does it, within seconds.
    What was withdrawn can be offered again.
    """

    with (
        interruptible("what was withdrawn is gone; run the command again for the rest"),
        chosen_store(context) as opened,
    ):
        kind = opened.notation()
        with progress("withdraw", kind.many) as shown:
            number, holder = opened.withdraw(
                ids or (), corpus=corpus, origin=origin, external_ids=external_id or (),
                progress=lambda done: shown.update(done, None, done),
            )  # fmt: skip
    if as_json:
        print_json({"pairs": number, "done": holder is None})
    elif holder:
        print(f"{plural(number, kind.one)}: `{holder.command}` (process {holder.pid} on {holder.host}) takes them out")
    else:
        print(f"{plural(number, kind.one)} withdrawn")
