"""Commands about a store as a whole: init, status, events."""

import json
import socket
import sys
import time
from contextlib import ExitStack, suppress
from dataclasses import asdict
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from hierogram.daemon.cli.common import (
    AsJson,
    chosen_store,
    interruptible,
    note,
    plural,
    print_json,
    store_url,
    was_given,
)
from hierogram.daemon.cli.flags import EXPERTS, SET, expert_help, given, with_options
from hierogram.daemon.exceptions import UsageError
from hierogram.daemon.memory import resident_bytes
from hierogram.daemon.progress import progress
from hierogram.samplers.grammar.kinds import NOTATIONS, Notation
from hierogram.samplers.grammar.numbers import MOST_CLASSES
from hierogram.samplers.grammar.settings import ITG, SYNCHRONOUS, TREES
from hierogram.storage.options import Declared, Option
from hierogram.storage.records import Settings
from hierogram.storage.records.operations import EVENT_KINDS

if TYPE_CHECKING:
    from rich.console import RenderableType

    from hierogram.daemon.library.store import Glance, GrammarStore
    from hierogram.storage.records import Claim, StoreStatus
    from hierogram.storage.records.operations import Event


_EACH = frozenset({"grammar", "seed", "max_tokens", "upgrade", "parts_of", "store", "help"})
"""Options of `init` for any kind of grammar."""
_OF_TEXT = frozenset({"languages", "tokenize", "case"})
_OF_LABELS = ("labels", "classes_of")
_OF_KINDS: dict[str, frozenset[str]] = {
    SYNCHRONOUS: _OF_TEXT
    | {"model", "discount", "strength", "span_limit", "schedule", "aligner", "rate", "round_sweeps", "sweeps_per_level"}
    | {"levels", "settling", "type_moves", "temperature", "annealing", *_OF_LABELS},
    TREES: frozenset({"base", "start", "round_sweeps", "temperature", "annealing", "labels"}),
    ITG: _OF_TEXT | {"settling", "round_sweeps", "phrase_words", "slices"},
}
"""Settings of one kind or another."""


class InitCommand(TyperCommand):
    """`init`, whose help shows the options of the kind of grammar that is asked for, or those that all have."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """See `TyperCommand.parse_args`; notes the kind for the help, which is printed before the rest is read."""
        named = [after for arg, after in pairwise([*args, ""]) if arg == "--kind"]
        named += [arg.removeprefix("--kind=") for arg in args if arg.startswith("--kind=")]
        self._kind = named[-1] if named and named[-1] in NOTATIONS else None
        return super().parse_args(ctx, args)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the options that concern the kind, and how to see those of the others."""
        shown = _EACH | (_OF_TEXT if self._kind is None else _OF_KINDS[self._kind])
        records = []
        for parameter in self.get_params(ctx):
            if parameter.name == EXPERTS:
                if self._kind is not None:
                    experts = [name for name, field in Declared.of(Settings).items() if field.option.expert]
                    experts += _OF_LABELS
                    records.append((f"{SET} NAME=VALUE", expert_help(filter(shown.__contains__, experts))))
            elif parameter.name in shown and (record := parameter.get_help_record(ctx)) is not None:
                records.append(record)
        with formatter.section("Options" if self._kind is None else f"Options of kind {self._kind}"):
            formatter.write_dl(records)
        others = ", ".join(f"--kind {kind}" for kind in NOTATIONS if kind != self._kind)
        with formatter.section("More options"):
            formatter.write_text(f"hierogram init --help with {others}")


@with_options
def init(
    context: typer.Context,
    settings: Settings,
    upgrade: Annotated[bool, Option("Take an older store to this version's schema.")] = False,
    parts_of: Annotated[
        str | None,
        Option("Make it of the pairs of another store, with words divided into parts.", metavar="WORDS"),
    ] = None,
    labels: Annotated[
        int,
        Option(
            "Word classes that refine nonterminals, or sub-labels of each label of trees, 2, 4, 8 or 16 (1: none).",
            least=1,
            most=MOST_CLASSES,
            expert=True,
        ),
    ] = 1,
    classes_of: Annotated[
        str | None,
        Option("File of target sentences that classes are learned from, or of words and their classes.", expert=True),
    ] = None,
) -> None:
    """Make a store, with settings that are fixed for its life; or with --upgrade bring an older one up to date.

    --parts-of makes one of the same pairs as another, for languages whose words have many forms: the parts are learned
    from the words of each side that is rich in them, by byte pair encoding, and what comes later is divided in the same
    way. Translations are of words. Nothing is learned yet.

    --set labels=4 --set classes_of=corpus.en refines nonterminals: a phrase has a label by the classes of its first and
    last target words. --kind trees --set labels=2 divides each label of a treebank into two sub-labels, which are
    learned.

    Each kind of grammar has options of its own: `hierogram init --kind trees --help`. Without --schedule, the settings
    levels and sweeps_per_level choose the schedule `paper`, and a Dirichlet process gets that of annealed phrases, from
    T = 10 over 280 sweeps where nothing else is chosen.
    """
    from hierogram.daemon.library.store import open

    chosen, url = given(context, Settings), store_url(context)
    if upgrade:
        if chosen:
            raise UsageError("--upgrade goes with no settings: those of a store are fixed for its life")
        with open(url, upgrade=True) as opened:
            before, after = opened.upgraded_from, opened.status().schema
        if before == after:
            print(f"the store has schema {after} already, nothing was changed")
        else:
            print(f"upgraded the store from schema {before} to {after}")
        return
    if parts_of is not None:
        if chosen:
            raise UsageError("--parts-of goes with no settings: the store gets those of the other one")
        _make_parts(open(parts_of), url)
        return
    own = {name: getattr(settings, name) for name in chosen}
    with open(url, create=True, labels=labels, classes_of=classes_of, **own) as opened:
        print(f"{opened.url}: {'made a new store' if opened.made else 'there is a store already, nothing was changed'}")
        for name, value in asdict(opened.settings()).items():
            if name in ("joins", "classes"):
                # Long; chosen by --parts-of and by labels.
                continue
            if name == "sub_labels":
                print(f"  {'labels':<17}{max(value, len(opened.settings().classes) + 1)}")
                continue
            print(f"  {name:<17}{','.join(value) or '(not known)' if isinstance(value, tuple) else value}")


def _make_parts(words: "GrammarStore", url: str) -> None:
    """Make a store of the same pairs with words divided into parts."""
    with (
        words,
        interruptible("pairs may be missing: run the same command again to go on"),
        progress("divide", words.notation().many) as shown,
    ):
        made = words.in_parts(url, progress=lambda pairs, total: shown.update(pairs, total, pairs))
    with made:
        now = made.status()
        pairs = plural(sum(now.pairs.values()), "pair")
        sides = [
            f"{name} {f'in parts, by {text.count(chr(10)) + 1:,} joins' if text else 'whole'}"
            for name, text in zip(("source", "target"), made.settings().joins, strict=True)
        ]
        print(f"{made.url}: {pairs}; words of the {', of the '.join(sides)}")
        if now.rejected:
            note(f"{plural(now.rejected, 'pair')} left out: a side has too many parts")


@with_options
def status(
    context: typer.Context,
    watch: Annotated[bool, Option("Look again and again, until Ctrl-C.")] = False,
    every: Annotated[float, Option("Seconds between two looks.", least=0.1, metavar="SECONDS")] = 2.0,
    as_json: AsJson = False,
) -> None:
    """Print how much the store holds and how far learning has come.

    --watch prints pairs by state, lag, sweeps, and the latest rules in use. On a terminal the display is refreshed;
    elsewhere each look is printed after the last one, with --json as an object a line. Nothing is changed, and no
    daemon is needed.
    """
    if was_given(context, "every") and not watch:
        raise UsageError("--every is for looks again and again: give --watch, too")
    with chosen_store(context) as opened:
        if watch:
            _watch(opened, every, as_json)
            return
        now = opened.status()
        settings, kind = opened.settings(), opened.notation()
        writer = opened.writer()
    if as_json:
        held = writer and {
            **{name: str(getattr(writer, name)) for name in ("command", "host", "pid", "since")},
            "memory_bytes": _memory_of(writer),
        }
        lag = {"pairs": sum(now.behind.values()), "states": now.behind}
        print_json({**asdict(now), "lag": lag, "settings": asdict(settings), "writer": held})
        return
    for name, text in _status_lines(now, kind):
        print(f"{name:<16}{text}")
    if writer:
        size = _memory_of(writer)
        memory = "" if size is None else f", {size / 1e6:,.0f} MB of memory"
        who = f"{writer.command}, process {writer.pid} on {writer.host}{memory}"
        print(f"{'writer':<16}{who}, since {writer.since:%Y-%m-%d %H:%M:%S} UTC")


def _memory_of(writer: "Claim") -> int | None:
    """Return the bytes that the process holds which writes the store; None where it is on another machine."""
    return resident_bytes(writer.pid) if writer.host == socket.gethostname() else None


def _left_out(now: "StoreStatus") -> str:
    """Return what pairs expect of rules that are too rare in them to be counted, and of which rules how much."""
    whole = now.expected_tokens + sum(now.left_out.values())
    parts = ", ".join(f"{uses:,.0f} of {name}" for name, uses in now.left_out.items() if uses)
    share = f"{sum(now.left_out.values()) / whole:.1%} of what is expected" if whole else "nothing"
    return f"{share}, by nonterminals: {parts}" if parts else share


def _status_lines(now: "StoreStatus", kind: Notation) -> list[tuple[str, str]]:
    states = ", ".join(f"{number:,} {state}" for state, number in now.pairs.items())
    likelihood = "not known yet" if now.last_log_likelihood is None else f"{now.last_log_likelihood:,.1f}"
    return [
        ("store", f"{now.url} (schema {now.schema}, position {now.position:,})"),
        (kind.many, f"{sum(now.pairs.values()):,} ({states})"),
        *((f"  {name}", f"{number:,}") for name, number in now.corpora.items()),
        ("lag", f"{plural(sum(now.behind.values()), kind.one)} not settled yet"),
        ("rules", f"{now.rules:,}, used {now.rule_tokens:,} times ({now.expected_tokens:,.0f} expected)"),
        ("  not counted", _left_out(now)),
        ("sweeps", f"{now.sweeps:,}"),
        ("log-likelihood", likelihood),
        ("rejected lines", f"{now.rejected:,}"),
        *([] if now.log_bytes is None else [("log", f"{now.log_bytes / 1e6:,.1f} MB beside the file")]),
    ]


def _watch(opened: "GrammarStore", every: float, as_json: bool) -> None:
    """Look at a store again and again: on a terminal the display is refreshed, elsewhere each look is printed."""
    with ExitStack() as stack:
        stack.enter_context(suppress(KeyboardInterrupt))
        live = None
        if not as_json and sys.stdout.isatty():
            from rich.live import Live

            live = stack.enter_context(Live(auto_refresh=False))
        while True:
            seen = opened.glance()
            if live is not None:
                live.update(_display(seen), refresh=True)
            else:
                print(
                    json.dumps(seen._asdict(), ensure_ascii=False) if as_json else "\n".join(_lines(seen)), flush=True
                )
            time.sleep(every)


def _lines(seen: "Glance") -> list[str]:
    states = ", ".join(f"{number:,} {state}" for state, number in seen.pairs.items())
    likelihood = seen.log_likelihood
    return [
        f"{seen.store}, position {seen.position:,}",
        f"{plural(sum(seen.pairs.values()), seen.holds)} ({states}), {seen.lag:,} not settled yet",
        f"{plural(seen.rules, 'rule')}, {plural(seen.sweeps, 'sweep')},"
        f" {seen.pair_sweeps_per_second:,.0f} {seen.holds}s a second lately"
        + ("" if likelihood is None else f", log-likelihood {likelihood:,.1f}"),
        *(f"  {rule['source']} ||| {rule['target']}  {rule['uses']:,}" for rule in seen.latest_rules),
    ]


def _display(seen: "Glance") -> "RenderableType":
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table("source", "target", "uses")
    for rule in seen.latest_rules:
        # Texts, since words may look like the console's markup.
        table.add_row(Text(rule["source"]), Text(rule["target"]), f"{rule['uses']:,}")
    heads = _lines(seen._replace(latest_rules=[]))
    return Group(*map(Text, heads), *([table] if seen.latest_rules else []))


_LOOK_SECONDS = 1.0
_A_LOOK = 1_000


@with_options
def events(
    context: typer.Context,
    after: Annotated[
        int | None, Option("Position: the last event that is known already.", least=0, shown="the oldest that is kept")
    ] = None,
    limit: Annotated[int, Option("Most events.", least=1, most=1_000_000)] = 1_000,
    kinds: Annotated[
        tuple[str, ...], Option("Kinds of events, separated by commas", values=EVENT_KINDS, flags=("--kind",))
    ] = (),
    follow: Annotated[bool, Option("Go on as events come, until Ctrl-C.")] = False,
    keep: Annotated[
        int | None,
        Option("Keep so many events in the store, from now on.", least=1, most=10_000_000, shown="as it is: 100,000"),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Tell what has changed: rules new, gone and moved, lines rejected, exports finished; after a position.

    Each event has a number; the number of the last one is the position to go on from. With --json each is an object a
    line. Old events are dropped: who comes too late hears on standard error how many were missed.
    """

    with chosen_store(context) as opened, suppress(KeyboardInterrupt):
        if keep is not None:
            opened.store.keep_events(keep)
            note(f"the store keeps {plural(keep, 'event')} from now on")
        while limit > 0:
            page = opened.events(after, min(limit, _A_LOOK), kinds)
            if page.missed:
                note(f"{plural(page.missed, 'event')} missed: they are no longer kept, the oldest is {page.oldest}")
            for event in page.events:
                print(json.dumps(event.plain(), ensure_ascii=False) if as_json else _line(event))
            # Who follows through a pipe reads each event as it comes.
            sys.stdout.flush()
            limit -= len(page.events)
            if len(page.events) == _A_LOOK:
                after = page.events[-1].id
            elif follow and limit > 0:
                after = max(page.last, after or 0)
                time.sleep(_LOOK_SECONDS)
            else:
                return


def _line(event: "Event") -> str:
    """Return an event as a line for people."""
    head = f"{event.id}  {event.at:%Y-%m-%d %H:%M:%S}  {event.kind}"
    if event.rule_id is not None:
        before = "" if event.expected_uses_before is None else f"{event.expected_uses_before:.1f} → "
        return f"{head}  {event.source} ||| {event.target}  {before}{event.expected_uses_now:.1f} (± {event.error:.1f})"
    detail = " ".join(f"{name}={value}" for name, value in (event.detail or {}).items())
    return f"{head}  {'' if event.number is None else f'{event.number:,} '}{detail}"
