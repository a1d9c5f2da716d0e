"""Commands about grammars as files: export, diff."""

import sys
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from hierogram.daemon.commands.common import (
    FOUND,
    AsJson,
    StoreUrl,
    interruptible,
    note,
    plural,
    say,
    say_json,
    say_table,
    store_url,
)
from hierogram.daemon.commands.flags import with_options
from hierogram.daemon.exceptions import UsageError
from hierogram.daemon.exports.options import Destination, ExportOptions
from hierogram.daemon.progress import Progress, progress

if TYPE_CHECKING:
    from hierogram.daemon.exports.exporting import Report
    from hierogram.daemon.exports.manifest import Manifest


def telling(shown: Progress) -> "Report":
    """Tells a progress of an export's."""
    doing = {
        "read": ("reading", "rules"),
        "count": ("counting", "pairs"),
        "align": ("aligning", "pairs"),
        "write": ("writing", "rules"),
    }

    def tell(what: str, done: int, total: int | None) -> None:
        said, unit = doing[what]
        shown.update(done, total, done, said, unit)

    return tell


@with_options
def export(
    context: typer.Context,
    destination: Destination,
    options: ExportOptions,
    as_json: AsJson = False,
    store: StoreUrl = None,
) -> None:
    """Write the grammar as a file that decoders or analysts load, with a manifest beside it.

    The name of the file says its format and its compression: grammar.moses.gz, rules.parquet.
    """
    if destination.sentences is not None:
        if options.format not in (None, "cdec"):
            raise UsageError("--sentences writes a folder of cdec grammars: give no other format")
        if options.filter_for is not None:
            raise UsageError("--sentences filters for its own file: give no --filter-for")
        options = replace(options, format="cdec", filter_for=destination.sentences)
    if as_json and destination.is_standard_output:
        raise UsageError("--json and --output - both write to standard output: give one of them")
    from hierogram.daemon.exports.exporting import export as write
    from hierogram.daemon.exports.exporting import export_to, publish
    from hierogram.daemon.exports.manifest import manifest_path
    from hierogram.daemon.exports.publication import MANIFEST, Versions
    from hierogram.storage.store import open_store

    with (
        interruptible("no file was written"),
        open_store(store_url(context, store)) as opened,
        progress("export", "rules") as shown,
    ):
        if destination.is_standard_output:
            _say_streamed(export_to(opened, sys.stdout.buffer, options, telling(shown)))
            return
        if destination.to is None:
            manifest = write(opened, destination.output, options, telling(shown))
            place = destination.output or Path(manifest.file)
            beside = manifest_path(place)
        else:
            made = publish(
                opened,
                Versions(destination.to, destination.name, destination.keep),
                options,
                report=telling(shown),
                by_sentence=destination.sentences is not None,
            )
            manifest, place, beside = made.manifest, made.folder / made.manifest.file, made.folder / MANIFEST
    if as_json:
        say_json(asdict(manifest) | {"path": str(place)})
        return
    say(f"{place}: {plural(manifest.rules, 'rule')}, {plural(manifest.bytes, 'byte')}, sha256 {manifest.sha256}")
    for left in manifest.filters:
        say(f"  {left.filter}: {left.before:,} → {left.after:,}")
    for other in manifest.others[:5]:
        say(f"{place.with_name(other.name)}: beside it")
    say(f"{beside}: its manifest")


def _say_streamed(manifest: "Manifest") -> None:
    """What went to standard output, and what did not."""
    note(f"{plural(manifest.rules, 'rule')}, {plural(manifest.bytes, 'byte')}, sha256 {manifest.sha256}")
    for left in manifest.filters:
        note(f"  {left.filter}: {left.before:,} → {left.after:,}")
    if manifest.others:
        note("its glue rules are not written: they are a file beside one that -o FILE names")
    note("its manifest is in the store: the newest row of the table exports")


def diff(
    context: typer.Context,
    before: Annotated[Path, typer.Argument(metavar="A", help="Export, or folder of a version.", exists=True)],
    after: Annotated[Path, typer.Argument(metavar="B", help="The other one, of the same format.", exists=True)],
    limit: Annotated[int, typer.Option(min=0, help="Rules of each kind to show.")] = 10,
    as_json: AsJson = False,
) -> None:
    """Compare two exports: rules added, removed, and most changed. Exit code 1 where they differ."""
    from hierogram.daemon.exports.difference import compare

    with interruptible("nothing was compared"):
        found = compare(before, after, limit)
    if as_json:
        say_json(asdict(found))
    else:
        say(
            f"{plural(found.same, 'rule')} as before, {found.changed:,} changed, {found.added:,} added, "
            f"{found.removed:,} removed"
        )
        if found.news is not None:
            say(f"{plural(found.news, 'rule')} moved by more than twice the error of sampling")
        for title, rules in (
            ("moved most, beyond the error of sampling", found.most_news),
            ("added", found.most_added),
            ("removed", found.most_removed),
            ("changed most", found.most_changed),
        ):
            if rules:
                say(f"{title}, those with the highest counts first" if title in ("added", "removed") else title)
                say_table(
                    ("before", "after", "source", "target"),
                    [(_shown(rule.before), _shown(rule.after), rule.source, rule.target) for rule in rules],
                    numeric=(0, 1),
                )
    if found.changed or found.added or found.removed:
        raise typer.Exit(FOUND)


def _shown(count: float | None) -> str:
    return "" if count is None else f"{count:g}"
