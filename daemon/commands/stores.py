"""Commands about a store as a whole: init, status, verify."""

from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Annotated

import typer

from hierogram.daemon.commands.common import (
    FOUND,
    AsJson,
    StoreUrl,
    note,
    open_or_make,
    plural,
    say,
    say_json,
    store_url,
    was_given,
)
from hierogram.daemon.exceptions import InputError, UsageError
from hierogram.daemon.progress import progress
from hierogram.samplers.grammar.kinds import NOTATIONS
from hierogram.samplers.grammar.settings import BASES, DIRICHLET, PITMAN_YOR, STARTS, SYNCHRONOUS, TREES
from hierogram.storage.records import Settings

if TYPE_CHECKING:
    from hierogram.storage.records import StoreStatus

_DEFAULTS = Settings()
_LARGEST_SEED = (1 << 63) - 1
_LONGEST_SIDE = 361
"""Words of a monotone pair whose phrases a forest's 16-bit node numbers can still hold: n(n+1)/2 < 2^16."""


def init(
    context: typer.Context,
    model: Annotated[str, typer.Option(help=f"{PITMAN_YOR} (by rule length) or {DIRICHLET}.")] = _DEFAULTS.model,
    discount: Annotated[float, typer.Option(help="Pitman-Yor discount d, 0 ≤ d < 1.")] = _DEFAULTS.discount,
    strength: Annotated[float, typer.Option(help="Strength α > 0 of the prior.")] = _DEFAULTS.strength,
    rate: Annotated[float, typer.Option(help="Mean λ > 0 of the Poisson prior of rule lengths.")] = _DEFAULTS.rate,
    span_limit: Annotated[
        int, typer.Option(min=0, help="Phrases of more words than this are always cut (0: no limit).")
    ] = _DEFAULTS.span_limit,
    seed: Annotated[int, typer.Option(min=0, max=_LARGEST_SEED, help="Seed of all randomness.")] = _DEFAULTS.seed,
    samples: Annotated[int, typer.Option(min=1, help="Samples that each pair keeps.")] = _DEFAULTS.samples,
    thinning: Annotated[int, typer.Option(min=1, help="Sweeps from one sample to the next.")] = _DEFAULTS.thinning,
    sweeps_per_level: Annotated[
        int, typer.Option(min=1, help="Sweeps over each stage of the stratified schedule.")
    ] = _DEFAULTS.sweeps_per_level,
    levels: Annotated[
        int, typer.Option(min=1, help="Stages of the stratified schedule, by level of phrase.")
    ] = _DEFAULTS.levels,
    max_tokens: Annotated[
        int, typer.Option(min=1, max=_LONGEST_SIDE, help="Longest side, in tokens, that ingest takes.")
    ] = _DEFAULTS.max_tokens,
    grammar: Annotated[
        str, typer.Option(help=f"{SYNCHRONOUS} (rules between two languages) or {TREES} (fragments of a treebank's).")
    ] = _DEFAULTS.grammar,
    base: Annotated[
        str, typer.Option(help="Base distribution of a tree grammar's fragments: uniform (P_M) or pcfg (P_C).")
    ] = _DEFAULTS.base,
    start: Annotated[
        str, typer.Option(help="How a new tree is cut: joined (one fragment), cut (everywhere) or random.")
    ] = _DEFAULTS.start,
    temperature: Annotated[
        float, typer.Option(help="Temperature T ≥ 1 at which the annealing of a new tree begins.")
    ] = _DEFAULTS.temperature,
    annealing: Annotated[
        int, typer.Option(min=1, help="Sweeps in which a new tree is annealed down to T = 1.")
    ] = _DEFAULTS.annealing,
    upgrade: Annotated[bool, typer.Option("--upgrade", help="Take an older store to this version's schema.")] = False,
    store: StoreUrl = None,
) -> None:
    """Make a store, with settings that are fixed for its life; or upgrade an older one."""
    settings = Settings(
        model=model,
        discount=discount,
        strength=strength,
        rate=rate,
        span_limit=span_limit,
        seed=seed,
        samples=samples,
        thinning=thinning,
        sweeps_per_level=sweeps_per_level,
        levels=levels,
        max_tokens=max_tokens,
        grammar=grammar,
        base=base,
        start=start,
        temperature=temperature,
        annealing=annealing,
    )
    chosen = any(was_given(context, name) for name in asdict(settings))
    url = store_url(context, store)
    if upgrade:
        if chosen:
            raise UsageError("--upgrade goes with no settings: those of a store are fixed for its life")
        _upgrade(url)
        return
    _check(settings)
    opened, made = open_or_make(url, settings)
    with opened:
        if chosen:
            _refuse_other(opened.url, opened.settings(), settings)
        say(f"{opened.url}: {'made a new store' if made else 'there is a store already, nothing was changed'}")
        for name, value in asdict(opened.settings()).items():
            say(f"  {name:<17}{value}")


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


def _check(settings: Settings) -> None:
    if settings.model not in (PITMAN_YOR, DIRICHLET):
        raise UsageError(f"--model {settings.model}: there are {PITMAN_YOR} and {DIRICHLET}")
    for name, chosen, values in (
        ("grammar", settings.grammar, tuple(NOTATIONS)),
        ("base", settings.base, BASES),
        ("start", settings.start, STARTS),
    ):
        if chosen not in values:
            raise UsageError(f"--{name} {chosen}: there are {', '.join(values)}")
    if not 1 <= settings.temperature < float("inf"):
        raise UsageError(f"--temperature {settings.temperature}: has to be at least 1")
    if not 0 <= settings.discount < 1:
        raise UsageError(f"--discount {settings.discount}: has to be at least 0 and below 1")
    for name, value in (("strength", settings.strength), ("rate", settings.rate)):
        if not 0 < value < float("inf"):
            raise UsageError(f"--{name} {value}: has to be above 0")


def status(context: typer.Context, as_json: AsJson = False, store: StoreUrl = None) -> None:
    """Say how much the store holds and how far learning has come."""
    from hierogram.storage.store import open_store

    with open_store(store_url(context, store)) as opened:
        now = opened.status()
        settings = opened.settings()
        writer = opened.lease()
    if as_json:
        held = writer and {name: str(getattr(writer, name)) for name in ("command", "host", "pid", "since")}
        say_json({**asdict(now), "settings": asdict(settings), "writer": held})
        return
    for name, text in _status_lines(now):
        say(f"{name:<16}{text}")
    if writer:
        who = f"{writer.command}, process {writer.pid} on {writer.host}"
        say(f"{'writer':<16}{who}, since {writer.since:%Y-%m-%d %H:%M:%S} UTC")


def _status_lines(now: "StoreStatus") -> list[tuple[str, str]]:
    states = ", ".join(f"{number:,} {state}" for state, number in now.pairs.items())
    likelihood = "not known yet" if now.last_log_likelihood is None else f"{now.last_log_likelihood:,.1f}"
    return [
        ("store", f"{now.url} (schema {now.schema}, position {now.position:,})"),
        ("pairs", f"{sum(now.pairs.values()):,} ({states})"),
        *((f"  {name}", f"{number:,}") for name, number in now.corpora.items()),
        ("rules", f"{now.rules:,}, used {now.rule_tokens:,} times ({now.sampled_tokens:,} times in samples)"),
        ("sweeps", f"{now.sweeps:,}"),
        ("log-likelihood", likelihood),
        ("rejected lines", f"{now.rejected:,}"),
    ]


def verify(context: typer.Context, as_json: AsJson = False, store: StoreUrl = None) -> None:
    """Count every rule again from the derivations and check all tables; exit with 1 where something is wrong."""
    from hierogram.daemon.learning.verifying import verify as recount
    from hierogram.storage.store import open_store

    with open_store(store_url(context, store)) as opened, progress("verify", "pairs") as shown:
        found = recount(opened, lambda pairs, total: shown.update(pairs, total, pairs))
    if as_json:
        say_json(asdict(found))
    else:
        for problem in found.problems:
            say(problem)
        if found.more_problems:
            say(f"… and {plural(found.more_problems, 'more problem')}")
        checked = f"{plural(found.pairs, 'pair')} with a derivation and {plural(found.rules, 'rule')}"
        if not found.problems:
            say(f"sound: {checked} counted again, {found.rule_tokens:,} uses and {found.sampled_tokens:,} in samples")
    if found.problems:
        note(f"hierogram: the store is damaged: {plural(len(found.problems) + found.more_problems, 'problem')}")
        raise typer.Exit(FOUND)
