"""Commands about a store as a whole: init, status."""

from collections.abc import Collection
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hierogram.daemon.commands.common import (
    AsJson,
    StoreUrl,
    open_or_make,
    plural,
    say,
    say_json,
    store_url,
)
from hierogram.daemon.commands.flags import given, with_options
from hierogram.daemon.exceptions import InputError, UsageError
from hierogram.daemon.memory import resident_bytes
from hierogram.samplers.grammar.kinds import Notation, notation_of
from hierogram.samplers.grammar.settings import ANNEALED, DIRICHLET, PAPER
from hierogram.storage.records import Settings

if TYPE_CHECKING:
    from hierogram.storage.records import Claim, StoreStatus

_OF_DIRICHLET: dict[str, Any] = {"schedule": ANNEALED, "temperature": 10.0, "annealing": 280}
"""Of a Dirichlet process, where they are not chosen: from lower temperatures chains do not forget where they began."""


@with_options
def init(
    context: typer.Context,
    settings: Settings,
    upgrade: Annotated[bool, typer.Option("--upgrade", help="Take an older store to this version's schema.")] = False,
    store: StoreUrl = None,
) -> None:
    """Make a store, with settings that are fixed for its life; or upgrade an older one.

    Without --schedule, --levels or --sweeps-per-level choose the schedule `paper`, and a Dirichlet process gets that of
    annealed phrases, from T = 10 over 280 sweeps where nothing else is chosen.
    """
    chosen = given(context, Settings)
    settings = with_schedule(settings, chosen)
    url = store_url(context, store)
    if upgrade:
        if chosen:
            raise UsageError("--upgrade goes with no settings: those of a store are fixed for its life")
        _upgrade(url)
        return
    from hierogram.daemon.corpora.texts import check_settings

    check_settings(settings)
    if settings.type_moves and settings.model != DIRICHLET:
        raise UsageError("--type-moves: they need an exchangeable model: --model dirichlet")
    opened, made = open_or_make(url, settings)
    with opened:
        if chosen:
            _refuse_other(opened.url, opened.settings(), settings)
        say(f"{opened.url}: {'made a new store' if made else 'there is a store already, nothing was changed'}")
        for name, value in asdict(opened.settings()).items():
            say(f"  {name:<17}{','.join(value) or '(not known)' if isinstance(value, tuple) else value}")


def with_schedule(settings: Settings, chosen: Collection[str]) -> Settings:
    """The settings with the schedule that the `chosen` ones ask for, where it is not among them."""
    if "schedule" not in chosen and ("levels" in chosen or "sweeps_per_level" in chosen):
        return replace(settings, schedule=PAPER)
    if settings.model != DIRICHLET:
        return settings
    own = {name: value for name, value in _OF_DIRICHLET.items() if name not in chosen}
    return replace(settings, **own)


def _refuse_other(url: str, stored: Settings, wanted: Settings) -> None:
    """Raises `InputError` where the settings differ; the salt is the store's own affair."""
    was, is_wanted = asdict(replace(stored, key_salt=0)), asdict(wanted)
    differing = [f"{name} is {was[name]}, not {is_wanted[name]}" for name in was if was[name] != is_wanted[name]]
    if differing:
        raise InputError(
            f"there is a store at {url}, and its {'; '.join(differing)}: settings are fixed for a store's life, "
            "make another one for other settings"
        )


def _upgrade(url: str) -> None:
    from hierogram.storage.store import upgrade

    before, after = upgrade(url)
    if before == after:
        say(f"the store has schema {after} already, nothing was changed")
    else:
        say(f"upgraded the store from schema {before} to {after}")


def status(context: typer.Context, as_json: AsJson = False, store: StoreUrl = None) -> None:
    """Say how much the store holds and how far learning has come."""
    from hierogram.storage.store import open_store

    with open_store(store_url(context, store)) as opened:
        now = opened.status()
        settings = opened.settings()
        writer = opened.lease()
    if as_json:
        held = writer and {
            **{name: str(getattr(writer, name)) for name in ("command", "host", "pid", "since")},
            "memory_bytes": _memory_of(writer),
        }
        lag = {"pairs": sum(now.behind.values()), "states": now.behind}
        say_json({**asdict(now), "lag": lag, "settings": asdict(settings), "writer": held})
        return
    for name, text in _status_lines(now, notation_of(settings.grammar)):
        say(f"{name:<16}{text}")
    if writer:
        size = _memory_of(writer)
        memory = "" if size is None else f", {size / 1e6:,.0f} MB of memory"
        who = f"{writer.command}, process {writer.pid} on {writer.host}{memory}"
        say(f"{'writer':<16}{who}, since {writer.since:%Y-%m-%d %H:%M:%S} UTC")


def _memory_of(writer: "Claim") -> int | None:
    """Bytes that the process holds which writes the store; None where it is on another machine."""
    from hierogram.storage.operations.processes import host_name

    return resident_bytes(writer.pid) if writer.host == host_name() else None


def _left_out(now: "StoreStatus") -> str:
    """What pairs expect of rules that are too rare in them to be counted, and of which rules how much."""
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
