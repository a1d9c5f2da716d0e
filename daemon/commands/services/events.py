"""The command that tells what has changed in a store: events."""

import json
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

import typer

from hierogram.daemon.commands.common import AsJson, StoreUrl, note, plural, say, store_url
from hierogram.daemon.commands.flags import with_options
from hierogram.storage.options import Option
from hierogram.storage.records.events import EVENT_KINDS

if TYPE_CHECKING:
    from hierogram.storage.records.events import Event, EventPage
    from hierogram.storage.store import Store

_LOOK_SECONDS = 1.0
_A_LOOK = 1_000


@dataclass(frozen=True, slots=True)
class EventOptions:
    """Which events are told."""

    after: Annotated[
        int | None, Option("Position: the last event that is known already.", least=0, shown="the oldest that is kept")
    ] = None
    limit: Annotated[int, Option("Most events.", least=1, most=1_000_000)] = 1_000
    kinds: Annotated[
        tuple[str, ...], Option("Kinds of events, separated by commas", values=EVENT_KINDS, flags=("--kind",))
    ] = ()
    follow: Annotated[bool, Option("Go on as events come, until Ctrl-C.")] = False
    keep: Annotated[
        int | None,
        Option("Keep so many events in the store, from now on.", least=1, most=10_000_000, shown="as it is: 100,000"),
    ] = None


@with_options
def events(context: typer.Context, options: EventOptions, as_json: AsJson = False, store: StoreUrl = None) -> None:
    """Tell what has changed: rules new, gone and moved, lines rejected, exports finished; after a position.

    Each event has a number; the number of the last one is the position to go on from. With --json each is an object a
    line. Old events are dropped: who comes too late hears on standard error how many were missed.
    """
    from hierogram.storage.store import open_store

    with open_store(store_url(context, store)) as opened, suppress(KeyboardInterrupt):
        if options.keep is not None:
            opened.keep_events(options.keep)
            note(f"the store keeps {plural(options.keep, 'event')} from now on")
        for event in _events(opened, options):
            say(json.dumps(event.plain(), ensure_ascii=False) if as_json else shown(event))


def _events(store: "Store", options: EventOptions) -> Iterator["Event"]:
    position, left = options.after, options.limit
    while True:
        page = store.events(position, min(left, _A_LOOK), options.kinds)
        _note_missed(page)
        yield from page.events
        left -= len(page.events)
        if left <= 0:
            return
        if len(page.events) == _A_LOOK:
            position = page.events[-1].id
        elif options.follow:
            position = max(page.last, position or 0)
            time.sleep(_LOOK_SECONDS)
        else:
            return


def _note_missed(page: "EventPage") -> None:
    if page.missed:
        note(f"{plural(page.missed, 'event')} missed: they are no longer kept, the oldest is {page.oldest}")


def shown(event: "Event") -> str:
    """An event as a line for people."""
    head = f"{event.id}  {event.at:%Y-%m-%d %H:%M:%S}  {event.kind}"
    if event.rule_id is not None:
        before = "" if event.mean_before is None else f"{event.mean_before:.1f} → "
        return f"{head}  {event.source} ||| {event.target}  {before}{event.mean_now:.1f} (± {event.error:.1f})"
    detail = event.detail or {}
    told = " ".join(f"{name}={value}" for name, value in detail.items())
    return f"{head}  {'' if event.number is None else f'{event.number:,} '}{told}"
