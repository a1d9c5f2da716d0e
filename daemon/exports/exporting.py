"""One export from one snapshot of the store: to a file, to a stream, or as a new version in a folder."""

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import BinaryIO

from hierogram.daemon.compressing import Compression, compressed, divided_name
from hierogram.daemon.corpora.texts import pipeline_of
from hierogram.daemon.exceptions import ExportError, NothingLearnedError, UsageError
from hierogram.daemon.exports.formats.format import Format
from hierogram.daemon.exports.formats.registry import EVERY, check_kind, find_format, promised_format, usual_format
from hierogram.daemon.exports.options import ExportOptions
from hierogram.daemon.exports.publication import (
    MANIFEST,
    MANIFEST_VERSION,
    Manifest,
    Versions,
    manifest_path,
    only_one,
    publish_files,
    publish_folder,
    retire,
    version_name,
    working_folder,
)
from hierogram.daemon.exports.scratch import scratch
from hierogram.daemon.exports.writing import ExportPlan, OutputFiles, Report, score_rules, write_rules
from hierogram.daemon.plain_options import all_plain
from hierogram.samplers.grammar.kinds import Notation, notation_of
from hierogram.samplers.grammar.numbers import ONE_USE, SWEEPS_A_DRAW
from hierogram.storage.exceptions import StoreError
from hierogram.storage.store import Store

_TEXT = ".txt"
"""An ending that promises text, in whatever format a kind of grammar usually has."""
GRAMMAR, GLUE = "grammar", "glue"
"""What files are called, before the suffixes, that have no other name."""


def decided(options: ExportOptions, notation: Notation, path: Path | None = None) -> ExportPlan:
    """Return how a kind of grammar is written, to the path if there is one.

    A format that is not named is that which the path's name ends in, else the usual one of the kind; likewise the
    compression, which is none where there is a path whose name says nothing. Raises `UsageError` where name and options
    contradict each other or the name has another ending, `ExportError` where the kind of grammar has no such format or
    features.
    """
    stem, named = divided_name("" if path is None else path.name)
    promised = promised_format(stem)
    if options.format is not None:
        format = find_format(options.format)
        if promised not in (None, format):
            raise UsageError(f"{path}: its name promises {promised.name}, and --format is {format.name}: change either")
    else:
        if path is not None and promised is None and Path(stem).suffix not in ("", _TEXT):
            raise UsageError(
                f"{path}: no format ends in {Path(stem).suffix}: end the name in "
                f"{', '.join(known.suffix for known in EVERY.values())}, or name the format with --format"
            )
        format = promised or usual_format(notation)
    try:
        check_kind(format, notation)
        format.check_features(options.features)
        features = format.of_grammar(notation, options.features)
    except ValueError as error:
        raise ExportError(str(error)) from error
    compression = _compression(options, format, path, named)
    return ExportPlan(replace(options.resolved(), format=format.name, features=features), format, compression)


def glue_name(name: str) -> str:
    """Return the name of the glue rules' file beside a grammar's: `.glue` comes before the compression's ending."""
    stem, _ = divided_name(name)
    return f"{stem}.{GLUE}{name.removeprefix(stem)}"


def _compression(options: ExportOptions, format: Format, path: Path | None, named: Compression | None) -> Compression:
    asked = None if options.compression is Compression.AUTO else options.compression
    if format.line is None:
        if named is not None or asked not in (None, Compression.NONE):
            said = f"{path}: " if named is not None else ""
            raise UsageError(f"{said}{format.name} is compressed within: leave the compression to it")
        return Compression.NONE
    if asked is not None and named not in (None, asked):
        raise UsageError(f"{path}: its name promises {named}, and --set compression is {asked}: change either")
    return asked or named or (format.compression if path is None else Compression.NONE)


Record = Callable[[Manifest, str | None], None]
"""Records in the store that an export is done: its manifest, and the name of a version's folder."""


@dataclass(frozen=True, slots=True)
class Published:
    """A new version: its folder, its manifest, and the old versions that left."""

    folder: Path
    manifest: Manifest
    retired: list[Path]


def export(
    store: Store, path: Path | None = None, options: ExportOptions | None = None, report: Report | None = None
) -> Manifest:
    """Write the store's grammar to `path`, its manifest (and glue rules, where the format has them) beside it.

    Without a path it is `grammar` with the endings of format and compression, in the current folder. The same grammar
    under the same options gives the same bytes. Raises `ExportError`, `UsageError`
    where name and options contradict each other, and `NothingLearnedError`.
    """
    plan = decided(options or ExportOptions(), notation_of(store.settings().grammar), path)
    path = Path(GRAMMAR + plan.ending).absolute() if path is None else path.absolute()
    if not path.parent.is_dir():
        raise ExportError(f"{path}: the folder {path.parent} does not exist: make it first")
    with _recorded(store, path.name, path, plan.format.name) as record, working_folder(path.parent, path.name) as work:
        manifest = _write(store, work, plan, report, work / path.name, work / glue_name(path.name))
        (work / MANIFEST).write_text(manifest.text(), encoding="utf-8")
        publish_files(
            [
                *((work / other.name, path.with_name(other.name)) for other in manifest.others),
                (work / path.name, path),
                (work / MANIFEST, manifest_path(path)),
            ]
        )
        record(manifest, None)
    return manifest


def export_to(
    store: Store, stream: BinaryIO, options: ExportOptions | None = None, report: Report | None = None
) -> Manifest:
    """Write the store's grammar to a stream, as `export` writes it to a file whose name says nothing.

    Glue rules and the manifest are not written; the manifest is kept in the store's table of exports.
    """
    name = Path("-")
    plan = decided(options or ExportOptions(), notation_of(store.settings().grammar), name)
    with (
        _recorded(store, str(name), name, plan.format.name) as record,
        tempfile.TemporaryDirectory(prefix="hierogram-") as folder,
        working_folder(Path(folder), GRAMMAR) as work,
    ):
        manifest = _write(store, work, plan, report, work / GRAMMAR, work / GLUE)
        with (work / GRAMMAR).open("rb") as file:
            shutil.copyfileobj(file, stream)
        stream.flush()
        record(manifest, None)
    return manifest


def publish(
    store: Store,
    versions: Versions,
    options: ExportOptions | None = None,
    *,
    job: str | None = None,
    report: Report | None = None,
    by_sentence: bool = False,
) -> Published:
    """Write the store's grammar as a new version into a folder (made if need be), and moves `latest` to it.

    A version is a folder with the grammar, glue rules where the format has them, and `manifest.json`. Then the versions
    leave that are not to stay. With `by_sentence` it holds a cdec grammar for each sentence of the test set instead,
    and a list that names them. Raises what `export` raises; the versions before stay as they are.
    """
    options, notation = options or ExportOptions(), notation_of(store.settings().grammar)
    folder, name = versions.folder.absolute(), versions.name
    with _recorded(store, name, folder, options.format or usual_format(notation).name, job) as record:
        plan = decided(options, notation)
        folder.mkdir(parents=True, exist_ok=True)
        with only_one(folder, name), working_folder(folder, name) as work:
            now = datetime.now(UTC)
            final = folder / version_name(folder, name, now)
            new = work / "version"
            new.mkdir()
            paths = new / (GRAMMAR + plan.ending), new / (GLUE + plan.ending)
            manifest = _write(store, work, plan, report, *paths, final if by_sentence else None)
            (new / MANIFEST).write_text(manifest.text(), encoding="utf-8")
            publish_folder(new, final)
            retired = retire(versions, now)
        record(manifest, final.name)
    return Published(final, manifest, retired)


@contextmanager
def _recorded(store: Store, name: str, path: Path, format: str, job: str | None = None) -> Iterator[Record]:
    """The record of an export in the store: done, when it gets the manifest (and a version), or failed, and why."""
    started = time.monotonic()
    export_id = store.record_export(name, str(path), format, job)

    def done(manifest: Manifest, version: str | None) -> None:
        store.finish_export(
            export_id,
            rules=manifest.rules,
            bytes=manifest.bytes,
            sha256=manifest.sha256,
            position=manifest.position,
            manifest=manifest.text(),
            seconds=time.monotonic() - started,
            version=version,
        )

    try:
        yield done
    except BaseException as error:
        with suppress(StoreError):
            store.finish_export(export_id, error=str(error) or type(error).__name__, seconds=time.monotonic() - started)
        if isinstance(error, OSError):
            raise ExportError(f"{path}: cannot be written: {error.strerror or error}") from error
        if type(error).__module__.split(".")[0] in ("duckdb", "_duckdb"):
            raise ExportError(f"{path}: cannot be written: {' '.join(str(error).split())}") from error
        raise


def _write(
    store: Store, work: Path, plan: ExportPlan, report: Report | None, path: Path, glue: Path, final: Path | None = None
) -> Manifest:
    """Write the rules, and the glue rules if there are any, to new files, by a snapshot; returns their manifest.

    With `final`, the name that the folder will have, grammars by sentence. Raises `NothingLearnedError`.
    """
    report, options = report or (lambda *_: None), plan.options
    with store.snapshot() as snapshot:
        settings = snapshot.settings()
        corpus = None if options.corpus is None else snapshot.corpus_id(options.corpus)
        if corpus is None and options.corpus is not None:
            known = ", ".join(sorted(snapshot.status().corpora)) or "none"
            raise ExportError(f"there is no corpus {options.corpus!r} in the store; there are: {known}")
        samples = 1 if options.drawn else ONE_USE
        plan = replace(plan, corpus=corpus, sampled=not options.drawn, samples=samples)
        if not snapshot.status().rules:
            raise NothingLearnedError(store.url)
        compress = partial(
            compressed,
            compression=plan.compression,
            level=options.level,
            long_distance=options.long_distance,
            threads=options.compression_threads,
        )
        with scratch(work) as database:
            filters, left = score_rules(database, snapshot, plan, report)
            output, side = OutputFiles(path, glue, compress, final), pipeline_of(settings).source
            written = write_rules(database, plan, output, side, lambda done: report("write", done, left))
        rules, *others = written.files
        return Manifest(
            manifest_version=MANIFEST_VERSION,
            hierogram=version("hierogram"),
            store=store.url,
            position=snapshot.position(),
            model=settings.model,
            seed=settings.seed,
            settings=asdict(settings),
            options=all_plain(options),
            format=plan.format.name,
            compression=plan.compression.value,
            features=[feature.name for feature in plan.features],
            normalization=options.normalization.value,
            filters=filters,
            rules=written.rules,
            file=rules.name,
            bytes=rules.bytes,
            sha256=rules.sha256,
            created_at=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            others=others,
            variance_a_use=float(SWEEPS_A_DRAW) if options.drawn else snapshot.variance_a_use(),
        )
