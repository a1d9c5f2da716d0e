"""Commands for exported grammars: export, diff, schedule."""

import json
import sys
from contextlib import nullcontext
from dataclasses import asdict, dataclass, fields, replace
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
    print_table,
    store_url,
)
from hierogram.daemon.cli.flags import default_flag, given_options, with_options
from hierogram.daemon.exceptions import UsageError
from hierogram.daemon.exports.options import DEFAULT_ZONE, Cron, Destination, Every, ExportOptions, MaxAge, Timezone
from hierogram.daemon.extensions import extensions
from hierogram.daemon.library.options import make_options
from hierogram.daemon.progress import Phases, Progress, progress
from hierogram.daemon.shared_options import LIMIT, AsJson
from hierogram.storage.options import Option, OptionError, OptionField

if TYPE_CHECKING:
    from hierogram.daemon.exports.exporting import Published
    from hierogram.daemon.exports.publication import Manifest
    from hierogram.daemon.exports.schedule import JobStatus


def export_progress(bar: Progress) -> Phases:
    """Return a callback for the phases of an export that shows the progress on a bar."""
    descriptions = {"read": "reading", "count": "counting", "align": "aligning", "write": "writing"}

    def report(phase: str, done: int, total: int | None) -> None:
        bar.update(done, total, done, descriptions[phase], "rules" if phase in ("read", "write") else "pairs")

    return report


PACKED, DATASETTE = "packed", "datasette"
"""Formats that only the command offers, because they write neither a rule file nor a manifest."""
_EXTRA_FORMATS = {
    PACKED: "memory-mapped by `translate`, which then starts at once",
    DATASETTE: "Datasette configuration of an SQLite store, with canned queries",
}
_PACKED_OPTIONS = {"format", "max_scope", "posterior_mean", "current_sample"}
_FORMAT = OptionField.of(ExportOptions)["format"].option


@dataclass(frozen=True, kw_only=True)
class _ExportCommandOptions(ExportOptions):
    """Options of `hierogram export`, unchecked for the formats that only this command has."""

    format: Annotated[
        str | None, replace(_FORMAT, values={**dict.fromkeys(_FORMAT.values or (), ""), **_EXTRA_FORMATS})
    ] = None  # fmt: skip

    def __post_init__(self) -> None:
        if self.format not in _EXTRA_FORMATS:
            ExportOptions.__post_init__(self)


@with_options
def export(
    context: typer.Context,
    destination: Destination,
    options: _ExportCommandOptions,
    cron: Cron = None,
    timezone: Timezone = None,
    every: Every = None,
    max_age: MaxAge = None,
    grammar: Annotated[
        str | None, Option("With --format packed: pack this export instead of the store's rules.", metavar="FILE")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Export the grammar and a manifest, or schedule exports.

    The suffix of the file selects the format and the compression, as in grammar.moses.gz or rules.parquet. With --cron
    or --every, the daemon runs the export regularly. `translate` maps a packed grammar (grammar.packed, which has no
    manifest) into memory, and so starts at once.
    """
    chosen = given_options(context, _ExportCommandOptions)
    if options.format == PACKED or (options.format is None and (destination.output or Path()).suffix == f".{PACKED}"):
        if unsupported := chosen - _PACKED_OPTIONS:
            got = ", ".join(map(default_flag, sorted(unsupported)))
            allowed = "--max-scope, --posterior-mean and --current-sample"
            raise UsageError(f"--format {PACKED} allows {allowed} only, got {got}")
        _pack(context, grammar, destination, options)
        return
    if grammar is not None:
        raise UsageError(f"--grammar requires --format {PACKED}")
    if options.format == DATASETTE:
        _configure_datasette(store_url(context), destination)
        return
    when = {"cron": cron, "timezone": timezone, "every": every, "max_age": max_age}
    if any(value is not None for value in when.values()):
        _schedule(context, destination, when, options, as_json)
        return
    if as_json and destination.is_standard_output:
        raise UsageError("--json and --output - are mutually exclusive: both write to standard output")
    from hierogram.daemon.exports.publication import MANIFEST, manifest_path

    with interruptible("no file was written"), open_chosen_store(context) as opened, progress("export", "rules") as bar:
        report = export_progress(bar)
        if destination.is_standard_output:
            manifest = opened.export(sys.stdout.buffer, options=options, progress=report)
            print_note("\n".join([f"{_size(manifest)}, sha256 {manifest.sha256}", *_filter_counts(manifest)]))
            _warn_if_empty(manifest)
            if manifest.extra_files:
                print_note("glue rules are not written to standard output: use -o FILE to write them to a second file")
            print_note("the manifest is the newest row of the table exports in the store")
            return
        if destination.to is None:
            manifest = opened.export(destination.output, options=options, progress=report)
            path = destination.output or Path(manifest.file)
            written_manifest = manifest_path(path)
        else:
            to, name, keep = destination.to, destination.name, destination.keep
            published = opened.publish(to, name, keep=keep, options=options, progress=report)
            manifest = published.manifest
            path, written_manifest = published.folder / manifest.file, published.folder / MANIFEST
    _warn_if_empty(manifest)
    if as_json:
        print_json(asdict(manifest) | {"path": str(path)})
        return
    print(f"{path}: {_size(manifest)}, sha256 {manifest.sha256}", *_filter_counts(manifest), sep="\n")
    for extra in manifest.extra_files[:5]:
        print(f"{path.with_name(extra.name)}: additional file")
    print(f"{written_manifest}: manifest")


def _size(manifest: "Manifest") -> str:
    return f"{plural(manifest.rules, 'rule')}, {plural(manifest.bytes, 'byte')}"


def _filter_counts(manifest: "Manifest") -> list[str]:
    return [f"  {count.filter}: {count.before:,} → {count.after:,}" for count in manifest.filters]


def _warn_if_empty(manifest: "Manifest") -> None:
    if not manifest.rules:
        last = next((f" by {count.filter}" for count in manifest.filters if not count.after), "")
        print_note(f"hierogram: no rules left after filtering{last}: relax the filters")


def _pack(context: typer.Context, grammar: str | None, destination: Destination, options: ExportOptions) -> None:
    if destination.to is not None or destination.output is None or destination.is_standard_output:
        raise UsageError(f"--format {PACKED} writes a single file: use -o grammar.{PACKED}")
    if options.max_scope is None:
        raise UsageError(f"--format {PACKED} requires --max-scope")
    pack = next((extension.pack for extension in extensions() if extension.pack), None)
    if pack is None:
        raise UsageError(f"--format {PACKED} requires the translation extension: install hierogram with its tools")
    with nullcontext(grammar) if grammar else open_chosen_store(context) as rules_to_pack:
        rules = pack(rules_to_pack, destination.output, options)
    print_note(f"{destination.output}: {plural(rules, 'rule')}")


def _configure_datasette(url: str, destination: Destination) -> None:
    from hierogram.daemon.exports.datasette import datasette_configuration
    from hierogram.daemon.text.lines import write_lines

    if destination.to is not None:
        raise UsageError(f"--format {DATASETTE} writes a single file: use -o FILE")
    output = destination.output or Path("datasette.json")
    file, configuration = datasette_configuration(url)
    if destination.is_standard_output:
        print_json(configuration)
        return
    write_lines(output, [json.dumps(configuration, indent=2, ensure_ascii=False)])
    settings = " ".join(f"--setting {name} {value}" for name, value in configuration["settings"].items())
    print(f"datasette serve {file} --metadata {output} {settings}")
    print_note(f"{output}: written. For Datasette 1.0: datasette serve {file} --config {output} --metadata {output}")


def _schedule(
    context: typer.Context, destination: Destination, when: dict[str, str | None], options: ExportOptions, as_json: bool
) -> None:
    from hierogram.daemon.exports.options import ExportJob
    from hierogram.daemon.exports.publication import open_folder
    from hierogram.daemon.exports.schedule import add_job, format_time

    if destination.to is None:
        raise UsageError("a scheduled export requires --to FOLDER")
    values = {field.name: getattr(options, field.name) for field in fields(ExportOptions)} | when
    values |= {"name": destination.name, "keep": destination.keep, "to": str(open_folder(destination.to))}
    values["filter_for"] = options.filter_for and options.filter_for.absolute()
    job = make_options(ExportJob, values, default_flag)
    with open_chosen_store(context) as opened:
        replaced = any(row.name == job.name for row in opened.store.jobs())
        try:
            added = add_job(opened.store, job)
        except OptionError as error:
            raise UsageError(f"{default_flag(error.option)}: {error.reason}") from error
    if as_json:
        print_json(asdict(added))
        return
    print(f"{job.name}: {'replaced' if replaced else 'added'}; `hierogram serve` will run it at:")
    for time in added.next_runs:
        print(f"  {format_time(time)}")


@with_options
def diff(
    before: Annotated[Path, typer.Argument(metavar="A", help="Export file, or folder of a version.", exists=True)],
    after: Annotated[Path, typer.Argument(metavar="B", help="Another export of the same format.", exists=True)],
    limit: Annotated[int, LIMIT] = 10,
    as_json: AsJson = False,
) -> None:
    """Compare two exports. Exit with 1 if they differ.

    Lists the rules with the largest changes, and the added and removed rules with the highest counts.
    """
    from hierogram.daemon.exports.difference import diff as compare

    with interruptible("nothing was compared"):
        difference = compare(before, after, limit)
    if as_json:
        print_json(asdict(difference))
    else:
        numbers = f"{difference.changed:,} changed, {difference.added:,} added, {difference.removed:,} removed"
        print(f"{plural(difference.same, 'rule')} unchanged, {numbers}")
        if difference.significant is not None:
            print(f"{plural(difference.significant, 'rule')} changed by more than twice the sampling error")
        for title, rules in (
            ("largest changes beyond sampling error", difference.most_significant),
            ("added", difference.most_added),
            ("removed", difference.most_removed),
            ("largest changes", difference.most_changed),
        ):
            if rules:
                print(f"{title}, highest counts first" if title in ("added", "removed") else title)
                rows = [(_format(rule.before), _format(rule.after), rule.source, rule.target) for rule in rules]
                print_table(("before", "after", "source", "target"), rows, numeric=(0, 1))
    if difference.changed or difference.added or difference.removed:
        raise typer.Exit(PROBLEMS_FOUND)


def _format(count: float | None) -> str:
    return "" if count is None else f"{count:g}"


@with_options
def schedule(
    context: typer.Context,
    name: Annotated[str | None, Option("Name of the job.", metavar="[NAME]", positional=True)] = None,
    run: Annotated[bool, Option("Run the job now, in this process.")] = False,
    dry_run: Annotated[bool, Option("Show the files that the job would write and delete now.")] = False,
    remove: Annotated[bool, Option("Remove the job; its versions remain.")] = False,
    as_json: AsJson = False,
) -> None:
    """List, run or remove scheduled exports. The list shows next runs, last result and last error.

    Add a job with `hierogram export --cron` or `--every`. --run does not change the time of the next run.
    """
    from hierogram.daemon.exports.schedule import dry_run_job, find_job, job_status, list_jobs, remove_job, run_job

    if run + dry_run + remove > 1:
        raise UsageError("--run, --dry-run and --remove are mutually exclusive")
    if (run or dry_run or remove) and name is None:
        raise UsageError("--run, --dry-run and --remove require the NAME of a job")
    with open_chosen_store(context) as opened:
        store = opened.store
        if remove:
            remove_job(store, str(name))
            print(f"{name}: removed")
        elif run or dry_run:
            job = find_job(store, str(name))
            with interruptible("no version was written"), progress("export", "rules") as bar:
                published = (run_job if run else dry_run_job)(store, job, export_progress(bar))
            _show_version(published, as_json, dry_run)
        else:
            jobs = list_jobs(store) if name is None else [job_status(store, name)]
            if as_json:
                print_json(list(map(asdict, jobs)))
                return
            for status in jobs:
                _show_job(status)


def _show_version(published: "Published", as_json: bool, dry_run: bool) -> None:
    manifest = published.manifest
    _warn_if_empty(manifest)
    path = published.folder / manifest.file
    if as_json:
        report = {"path": str(path), "unchanged": published.unchanged, "retired": list(map(str, published.pruned))}
        print_json(asdict(manifest) | report)
        return
    if published.unchanged:
        print(f"{path}: unchanged, not rewritten: {_size(manifest)}")
    else:
        size = f"{'would be written: ' if dry_run else ''}{_size(manifest)}"
        print(f"{path}: {size}", *_filter_counts(manifest), sep="\n")
    for version in published.pruned:
        print(f"{version}: {'would be deleted' if dry_run else 'deleted'}")


def _show_job(status: "JobStatus") -> None:
    from hierogram.daemon.exports.schedule import format_time

    job, origin = status.job, "configuration" if status.configured else "hierogram export"
    cron = f"{job.get('cron')} ({job.get('timezone', DEFAULT_ZONE)})"
    when = f"every {job['every']}" if "every" in job else cron
    print(f"{status.name}: {when}, {job.get('format', 'default format')} to {job.get('to')}, added by {origin}")
    print("  next: " + ("; ".join(map(format_time, status.next_runs)) or "never"))
    ended = status.succeeded_at if status.state in ("unchanged", "done") else status.started_at
    print(f"  last: {status.state}" + ("" if ended is None else f" {format_time(ended)}"))
    if status.path is not None:
        size = f"{plural(status.rules or 0, 'rule')}, {plural(status.bytes or 0, 'byte')}"
        print(f"  version: {status.path}, {size}, {status.seconds or 0:.1f} s")
    if status.failures:
        print(f"  failures: {status.failures:,}")
    if status.error is not None:
        print(f"  error: {status.error}")
