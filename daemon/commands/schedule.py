"""Commands about exports on a schedule: schedule add, list, remove, run."""

from dataclasses import replace
from typing import Annotated, Any

import typer

from hierogram.daemon.commands.common import (
    AsJson,
    StoreUrl,
    interruptible,
    plural,
    say,
    say_json,
    say_table,
    store_url,
)
from hierogram.daemon.commands.exports import telling
from hierogram.daemon.commands.flags import with_options
from hierogram.daemon.exports.jobs import ExportJob
from hierogram.daemon.progress import progress

JobName = Annotated[str, typer.Argument(help="Name of the job, and of the versions that it makes.")]

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode=None,
    help="Exports on a schedule, which the daemon runs when it is time.",
    epilog="\b\nExample:\n  hierogram schedule add nightly --cron '0 3 * * *' --to grammars --format moses --keep 7",
)


def _example(text: str) -> str:
    return f"\b\nExample:\n  {text}"


@app.command(epilog=_example("hierogram schedule add nightly --cron '0 3 * * *' --to grammars --format moses --keep 7"))
@with_options
def add(context: typer.Context, job: ExportJob, as_json: AsJson = False, store: StoreUrl = None) -> None:
    """Add a job, or put it in the place of the one with its name. A running daemon notices within seconds."""
    from hierogram.daemon.exports.schedule import add_job
    from hierogram.storage.store import open_store

    with open_store(store_url(context, store)) as opened:
        filter_for = None if job.filter_for is None else job.filter_for.absolute()
        added = add_job(opened, replace(job, to=job.to.absolute(), filter_for=filter_for))
    if as_json:
        say_json(_as_json(added))
    else:
        say(f"{job.name}: runs next at {_moment(added.next_run)}; `hierogram serve` runs it")


@app.command("list", epilog=_example("hierogram schedule list --json"))
def list_(context: typer.Context, as_json: AsJson = False, store: StoreUrl = None) -> None:
    """Show all jobs, when they run next, and how they ran last."""
    from hierogram.daemon.exports.schedule import list_jobs
    from hierogram.storage.store import open_store

    with open_store(store_url(context, store)) as opened:
        jobs = list_jobs(opened)
        last = {job.job.name: next(iter(opened.exports(1, job.job.name)), None) for job in jobs}
    if as_json:
        say_json(
            [
                _as_json(job)
                | {"last": None if (ran := last[job.job.name]) is None else _ran(ran.state, ran.seconds, ran.error)}
                for job in jobs
            ]
        )
        return
    rows = []
    for job in jobs:
        ran = last[job.job.name]
        rows.append(
            (
                job.job.name,
                job.job.cron or f"every {job.job.every}",
                job.job.format or "",
                str(job.job.to),
                _moment(job.next_run),
                "" if ran is None else f"{ran.state} {ran.error or ''}".strip(),
            )
        )
    say_table(("name", "when", "format", "folder", "next run", "last run"), rows)


@app.command(epilog=_example("hierogram schedule remove nightly"))
def remove(context: typer.Context, name: JobName, store: StoreUrl = None) -> None:
    """Remove a job; the versions that it made stay."""
    from hierogram.daemon.exports.schedule import remove_job
    from hierogram.storage.store import open_store

    with open_store(store_url(context, store)) as opened:
        remove_job(opened, name)
    say(f"{name}: removed")


@app.command(epilog=_example("hierogram schedule run nightly"))
def run(context: typer.Context, name: JobName, as_json: AsJson = False, store: StoreUrl = None) -> None:
    """Run a job now, in this process; when it runs next stays as it was."""
    from hierogram.daemon.exports.schedule import find_job, run_job
    from hierogram.storage.store import open_store

    with (
        interruptible("the version before stays"),
        open_store(store_url(context, store)) as opened,
        progress("export", "rules") as shown,
    ):
        made = run_job(opened, find_job(opened, name), telling(shown))
    if as_json:
        say_json({"folder": str(made.folder), "rules": made.manifest.rules, "retired": list(map(str, made.retired))})
    else:
        say(f"{made.folder}: {plural(made.manifest.rules, 'rule')}, {plural(made.manifest.bytes, 'byte')}")


def _moment(time: Any) -> str:
    return "never" if time is None else f"{time:%Y-%m-%d %H:%M:%S} UTC"


def _as_json(job: Any) -> dict[str, Any]:
    next_run = None if job.next_run is None else job.next_run.isoformat()
    return {"job": job.job.described(), "configured": job.configured, "next_run": next_run}


def _ran(state: str, seconds: float | None, error: str | None) -> dict[str, Any]:
    return {"state": state, "seconds": seconds, "error": error}
