"""The command that shows how a store gets on, again and again: watch."""

import json
import sys
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Annotated, Any

import typer

from hierogram.daemon.commands.common import AsJson, StoreUrl, is_terminal, plural, say, store_url
from hierogram.samplers.grammar.kinds import notation_of

if TYPE_CHECKING:
    from rich.console import RenderableType

    from hierogram.storage.browsing.reader import Reader

_MOST_RULES = 200
_SWEEPS = 20


def watch(
    context: typer.Context,
    every: Annotated[float, typer.Option(metavar="SECONDS", min=0.1, help="Seconds between two looks.")] = 2.0,
    rules: Annotated[int, typer.Option(min=0, max=_MOST_RULES, help="Latest rules to show.")] = 15,
    times: Annotated[
        int | None, typer.Option(min=1, help="Looks until it ends by itself.", show_default="until Ctrl-C")
    ] = None,
    as_json: AsJson = False,
    store: StoreUrl = None,
) -> None:
    """Show how a store gets on: pairs by state, lag, sweeps, and the latest rules in use; Ctrl-C ends it.

    On a terminal the display is refreshed; elsewhere each look is written after the last one, with --json as an object
    a line. Nothing is changed, and no daemon is needed.
    """
    from hierogram.storage.browsing.reader import Reader

    with Reader(store_url(context, store)) as reader, suppress(KeyboardInterrupt):
        looks = _looks(reader, rules, every, times)
        if as_json:
            for seen in looks:
                say(json.dumps(seen, ensure_ascii=False))
        elif is_terminal(sys.stdout):
            _refresh(looks)
        else:
            for seen in looks:
                for line in _lines(seen):
                    say(line)


def _looks(reader: "Reader", rules: int, every: float, times: int | None) -> Iterator[dict[str, Any]]:
    """What is seen, each time that one looks; the first at once."""
    number = 0
    while True:
        yield _seen(reader, rules)
        number += 1
        if number == times:
            return
        time.sleep(every)


def _seen(reader: "Reader", rules: int) -> dict[str, Any]:
    from hierogram.storage.browsing.progress import last_sweeps, latest_rules, store_status

    with reader.look() as look:
        now = store_status(look, reader.url)
        sweeps = last_sweeps(look, _SWEEPS)
        latest = latest_rules(look, rules)
        kind = notation_of(look.settings().grammar)
    seconds = sum(sweep.seconds for sweep in sweeps)
    return {
        "store": now.url,
        "position": now.position,
        "holds": kind.one,
        "pairs": now.pairs,
        "lag": sum(now.behind.values()),
        "rules": now.rules,
        "sweeps": now.sweeps,
        "pair_sweeps_per_second": sum(sweep.pairs for sweep in sweeps) / seconds if seconds else 0.0,
        "log_likelihood": now.last_log_likelihood,
        "latest_rules": [row._asdict() for row in latest],
    }


def _lines(seen: dict[str, Any]) -> list[str]:
    states = ", ".join(f"{number:,} {state}" for state, number in seen["pairs"].items())
    likelihood = seen["log_likelihood"]
    return [
        f"{seen['store']}, position {seen['position']:,}",
        f"{plural(sum(seen['pairs'].values()), seen['holds'])} ({states}), {seen['lag']:,} not settled yet",
        f"{plural(seen['rules'], 'rule')}, {plural(seen['sweeps'], 'sweep')},"
        f" {seen['pair_sweeps_per_second']:,.0f} {seen['holds']}s a second lately"
        + ("" if likelihood is None else f", log-likelihood {likelihood:,.1f}"),
        *(f"  {rule['source']} ||| {rule['target']}  {rule['uses']:,}" for rule in seen["latest_rules"]),
    ]


def _refresh(looks: Iterator[dict[str, Any]]) -> None:
    from rich.live import Live

    with Live(auto_refresh=False) as live:
        for seen in looks:
            live.update(_display(seen), refresh=True)


def _display(seen: dict[str, Any]) -> "RenderableType":
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table("source", "target", "uses")
    for rule in seen["latest_rules"]:
        # Texts, since words may look like the console's markup.
        table.add_row(Text(rule["source"]), Text(rule["target"]), f"{rule['uses']:,}")
    heads = _lines({**seen, "latest_rules": []})
    return Group(*map(Text, heads), *([table] if seen["latest_rules"] else []))
