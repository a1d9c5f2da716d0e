"""Commands about links that people fix or forbid: links set, links remove, links import."""

import csv
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hierogram.daemon.commands.common import AsJson, StoreUrl, interruptible, plural, say, say_json, store_url
from hierogram.daemon.exceptions import InputError, UsageError
from hierogram.samplers.grammar.known_links import KnownLinks, Link

if TYPE_CHECKING:
    from hierogram.storage.store import Store

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Links of pairs that people fix or forbid; alignments keep to them until they are taken back.",
    epilog="\b\nExample:\n  hierogram links set 17 --fixed '0-0 1-2' --forbidden 1-1",
)

_COLUMNS = ("pair", "source", "target", "verdict")
_VERDICTS = {"fixed": True, "forbidden": False}

PairNumber = Annotated[int, typer.Argument(metavar="PAIR", help="Number of the pair.", min=1)]
Origin = Annotated[str, typer.Option(metavar="TEXT", help="Who or what says so.")]


@app.command("set", epilog="\b\nExample:\n  hierogram links set 17 --fixed '0-0 1-2' --forbidden 1-1")
def set_links(
    context: typer.Context,
    pair: PairNumber,
    fixed: Annotated[str, typer.Option(metavar="LINKS", help="Links that there are, as 0-0 1-2.")] = "",
    forbidden: Annotated[str, typer.Option(metavar="LINKS", help="Links that there are not.")] = "",
    origin: Origin = "command line",
    as_json: AsJson = False,
    store: StoreUrl = None,
) -> None:
    """Fix and forbid links of a pair, in place of all that was said of its links before.

    The pair is aligned again, and its derivation begins anew. Where a daemon runs, it does it, within seconds.
    """
    known = KnownLinks(_links("--fixed", fixed), _links("--forbidden", forbidden))
    if not any(known):
        raise UsageError("say which links: with --fixed, --forbidden or both")
    _set(store_url(context, store), {pair: known}, origin, as_json)


@app.command("remove", epilog="\b\nExample:\n  hierogram links remove 17")
def remove(context: typer.Context, pair: PairNumber, as_json: AsJson = False, store: StoreUrl = None) -> None:
    """Take back all that was said of a pair's links; it is aligned again without."""
    _set(store_url(context, store), {pair: KnownLinks()}, "command line", as_json)


@app.command("import", epilog="\b\nExample:\n  hierogram links import corrections.csv --origin 'review of May'")
def import_links(
    context: typer.Context,
    file: Annotated[
        Path, typer.Argument(metavar="FILE", help="CSV with the columns pair, source, target, verdict.", dir_okay=False)
    ],
    origin: Annotated[str | None, typer.Option(metavar="TEXT", help="Who says so.", show_default="the file")] = None,
    as_json: AsJson = False,
    store: StoreUrl = None,
) -> None:
    """Fix and forbid links of many pairs: a line for each link, whose verdict is `fixed` or `forbidden`.

    Of each pair in the file, all that was said of its links before is replaced. Where a line is wrong, nothing is
    stored.
    """
    _set(store_url(context, store), _read(file), origin or str(file), as_json)


def _links(option: str, line: str) -> frozenset[Link]:
    links = []
    for word in line.split():
        source, _, target = word.partition("-")
        if not (source.isdecimal() and target.isdecimal() and len(word) < 20):
            raise UsageError(f"{option}: {word!r} is no link: write i-j, word numbers counted from 0")
        links.append((int(source), int(target)))
    return frozenset(links)


def _read(file: Path) -> dict[int, KnownLinks]:
    found: dict[int, KnownLinks] = {}
    for pair, link, fixed in _lines(file):
        known = found.get(pair, KnownLinks())
        found[pair] = (
            known._replace(fixed=known.fixed | {link}) if fixed else known._replace(forbidden=known.forbidden | {link})
        )
    if not found:
        raise InputError(f"{file}: it has no line with a link")
    return found


def _lines(file: Path) -> Iterator[tuple[int, Link, bool]]:
    try:
        with file.open(encoding="utf-8-sig", newline="") as lines:
            rows = csv.DictReader(lines)
            if missing := [name for name in _COLUMNS if name not in (rows.fieldnames or ())]:
                raise InputError(f"{file}: the first line does not name {', '.join(missing)}")
            for row in rows:
                yield _line(row, f"{file}: line {rows.line_num}")
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{file}: cannot be read: {error}") from error


def _line(row: dict[str, str], where: str) -> tuple[int, Link, bool]:
    numbers = []
    for name in _COLUMNS[:3]:
        text = (row[name] or "").strip()
        if not text.isdecimal() or len(text) > 18:
            raise InputError(f"{where}: {name} {text!r} is no number")
        numbers.append(int(text))
    verdict = (row["verdict"] or "").strip()
    if verdict not in _VERDICTS:
        raise InputError(f"{where}: the verdict {verdict!r} is neither fixed nor forbidden")
    return numbers[0], (numbers[1], numbers[2]), _VERDICTS[verdict]


def _set(url: str, corrections: dict[int, KnownLinks], origin: str, as_json: bool) -> None:
    from hierogram.storage.store import open_store

    with interruptible("what was noted is kept; run the command again"), open_store(url) as opened:
        missing = _refuse(opened, corrections)
        if missing:
            raise InputError(f"there is no pair {missing[0]}: nothing was stored")
        for pair, known in corrections.items():
            opened.set_human_links(pair, known, origin)
        holder = opened.lease()
        if holder is None:
            _correct(opened)
    number = sum(len(known.fixed) + len(known.forbidden) for known in corrections.values())
    said = f"{plural(number, 'link')} of {plural(len(corrections), 'pair')}"
    if as_json:
        say_json({"pairs": len(corrections), "links": number, "done": holder is None})
    elif holder:
        say(f"{said}: `{holder.command}` (process {holder.pid} on {holder.host}) aligns again")
    else:
        say(f"{said}: aligned again")


def _refuse(opened: "Store", corrections: dict[int, KnownLinks]) -> list[int]:
    """The pairs that are not stored; raises `InputError` where one cannot have its links."""
    rows = {row.id: row for row in opened.pairs_by_id(list(corrections))}
    for pair, row in rows.items():
        problem = corrections[pair].problem(row.source.count(" ") + 1, row.target.count(" ") + 1)
        if problem:
            raise InputError(f"pair {pair}: {problem}: nothing was stored")
    return [pair for pair in corrections if pair not in rows]


def _correct(opened: "Store") -> None:
    from hierogram.daemon.commands.grammar import announce_compilation

    announce_compilation()
    from hierogram.daemon.alignment.correcting import correct_requested

    correct_requested(opened)
