"""Commands for whole stores: init, status, events."""

import json
import socket
import sys
import time
from contextlib import suppress
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from hierogram.daemon.cli.common import open_chosen_store, plural, print_json, print_note, store_url
from hierogram.daemon.cli.flags import given_options, with_options
from hierogram.daemon.exceptions import UsageError
from hierogram.daemon.memory import resident_bytes
from hierogram.daemon.shared_options import LIMIT, AsJson
from hierogram.storage.options import Option
from hierogram.storage.records.operations import EVENT_KINDS
from hierogram.storage.records.settings import Settings

if TYPE_CHECKING:
    from hierogram.storage.records.operations import Event


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
    from hierogram.daemon.text.pipeline import segmenter_advice

    chosen, url = given_options(context, Settings), store_url(context)
    if upgrade:
        if chosen:
            raise UsageError(
                "--upgrade cannot be combined with settings, because the settings of a store cannot be changed"
            )
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
                advice = segmenter_advice((stored.languages[0], stored.languages[1]))
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
        writer_json = writer and {
            **{name: str(getattr(writer, name)) for name in ("command", "host", "pid", "acquired_at")},
            "memory_bytes": memory,
        }
        lag = {"pairs": sum(current.unsettled.values()), "states": current.unsettled}
        print_json({**asdict(current), "lag": lag, "settings": asdict(settings), "writer": writer_json})
        return
    states = ", ".join(f"{number:,} {state}" for state, number in current.pairs.items())
    damaged = current.damaged_pairs
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
        *([(f"damaged {kind.plural}", f"{damaged:,}: run `hierogram repair`")] if damaged else []),
        *([("failed files", f"{current.failed_files:,}")] if current.failed_files else []),
        *(
            [("webhooks", f"{failed:,} recent deliveries failed")]
            if (failed := current.deliveries.get("failed", 0))
            else []
        ),
        *([] if current.wal_bytes is None else [("log", f"{current.wal_bytes / 1e6:,.1f} MB (write-ahead log)")]),
    ]
    if writer:
        size = "" if memory is None else f", {memory / 1e6:,.0f} MB of memory"
        holder = f"{writer.command}, process {writer.pid} on {writer.host}{size}"
        lines.append(("writer", f"{holder}, since {writer.acquired_at:%Y-%m-%d %H:%M:%S} UTC"))
    for name, text in lines:
        print(f"{name:<16}{text}")


_POLL_SECONDS = 1.0
_PAGE_SIZE = 1_000


@with_options
def events(
    context: typer.Context,
    after: Annotated[int | None, Option("Start after this event number.", min=0, shown="the oldest event")] = None,
    limit: Annotated[int, LIMIT] = 1_000,
    kinds: Annotated[
        tuple[str, ...], Option("Kinds of events, separated by commas", values=EVENT_KINDS, flags=("--kind",))
    ] = (),
    follow: Annotated[bool, Option("Wait for new events until Ctrl-C.")] = False,
    keep: Annotated[
        int | None,
        Option(
            "Set the number of events that the store keeps.",
            min=1,
            max=10_000_000,
            shown="unchanged, initially 100,000",
        ),
    ] = None,
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
