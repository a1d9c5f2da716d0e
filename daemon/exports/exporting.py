"""One export from one snapshot of the store: to a file of its own, or as a new version in a folder."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from importlib.metadata import version
from pathlib import Path

from hierogram.daemon.exceptions import ExportError
from hierogram.daemon.exports.compression import CompressedFile, compression_of, suffix_of
from hierogram.daemon.exports.filters import FilterCount, apply_filters, shape_of
from hierogram.daemon.exports.formats import check_kind, find_format
from hierogram.daemon.exports.formats.format import Format
from hierogram.daemon.exports.manifest import MANIFEST_VERSION, ExportedFile, Manifest, manifest_path, today
from hierogram.daemon.exports.options import Compression, ExportOptions
from hierogram.daemon.exports.publication import (
    MANIFEST,
    only_one,
    publish_files,
    publish_folder,
    retire,
    version_name,
    working_folder,
)
from hierogram.daemon.exports.tables.loading import corpus_id, load_rules
from hierogram.daemon.exports.tables.rule_alignments import load_inner_alignments
from hierogram.daemon.exports.tables.scratch import scratch
from hierogram.daemon.exports.writing import Written, write_rules
from hierogram.samplers.grammar.kinds import LINKS, notation_of
from hierogram.storage.exceptions import StoreError
from hierogram.storage.exports.snapshot import Snapshot
from hierogram.storage.records import Settings
from hierogram.storage.store import Store

Report = Callable[[str, int, int | None], None]
"""Hears what is being done (`read`, `align`, `write`), how much of it is done, and of how much, where that is known."""

GRAMMAR, GLUE = "grammar", "glue"
"""What the files of a version are called, before the suffixes."""


@dataclass(frozen=True, slots=True)
class Published:
    """A new version: its folder, its manifest, and the old versions that left."""

    folder: Path
    manifest: Manifest
    retired: list[Path]


def export(store: Store, path: Path, options: ExportOptions | None = None, report: Report | None = None) -> Manifest:
    """Writes the store's grammar to `path`, its manifest (and glue rules, where the format has them) beside it.

    The same grammar under the same options gives the same bytes. Raises `ExportError`.
    """
    options = (options or ExportOptions()).resolved()
    path = path.absolute()
    format = find_format(options.format)
    _check_folder(path.parent, path)
    compression = _compression(options, format, path)
    glue = path.with_name(path.name + ".glue")
    with _recorded(store, path.name, path, options.format) as record, working_folder(path.parent, path.name) as work:
        with store.snapshot() as snapshot:
            made = _Work(work, snapshot, options, format, compression, report)
            written = made.write(path.name, glue.name)
            manifest = made.manifest(store.url, written)
        (work / MANIFEST).write_text(manifest.text(), encoding="utf-8")
        publish_files(
            [
                *((work / other.name, path.with_name(other.name)) for other in manifest.others),
                (work / path.name, path),
                (work / MANIFEST, manifest_path(path)),
            ]
        )
        record(manifest)
    return manifest


def publish(
    store: Store,
    folder: Path,
    name: str,
    options: ExportOptions | None = None,
    *,
    keep: int | None = None,
    max_age: timedelta | None = None,
    job: str | None = None,
    report: Report | None = None,
    by_sentence: bool = False,
) -> Published:
    """Writes the store's grammar as a new version into a folder (made if need be), and moves `latest` to it.

    A version is a folder with the grammar, glue rules where the format has them, and `manifest.json`. Then the versions
    beyond the newest `keep` and those older than `max_age` leave. With `by_sentence` it holds a cdec grammar for each
    sentence of the test set instead, and a list that names them. Raises `ExportError`; the versions before stay as
    they are.
    """
    options = (options or ExportOptions()).resolved()
    format = find_format(options.format)
    folder = folder.absolute()
    with _recorded(store, name, folder, options.format, job) as record:
        folder.mkdir(parents=True, exist_ok=True)
        with only_one(folder, name), working_folder(folder, name) as work:
            compression = _compression(options, format, None)
            ending = format.suffix + suffix_of(compression)
            now = datetime.now(UTC)
            final = folder / version_name(folder, name, now)
            new = work / "version"
            new.mkdir()
            with store.snapshot() as snapshot:
                made = _Work(work, snapshot, options, format, compression, report, new)
                written = made.write(GRAMMAR + ending, GLUE + ending, final if by_sentence else None)
                manifest = made.manifest(store.url, written)
            (new / MANIFEST).write_text(manifest.text(), encoding="utf-8")
            publish_folder(new, final)
            retired = retire(folder, name, keep=keep, max_age=max_age, now=now)
        record(manifest)
    return Published(final, manifest, retired)


def _check_folder(folder: Path, path: Path) -> None:
    if not folder.is_dir():
        raise ExportError(f"{path}: the folder {folder} does not exist: make it first")


def _compression(options: ExportOptions, format: Format, path: Path | None) -> Compression:
    if format.line is None:
        if options.compression not in (Compression.AUTO, Compression.NONE):
            raise ExportError(f"{format.name} is compressed within: leave the compression to it")
        return Compression.NONE
    if options.compression is not Compression.AUTO:
        return options.compression
    if path is None:
        return format.compression
    return compression_of(path) or Compression.NONE


@contextmanager
def _recorded(
    store: Store, name: str, path: Path, format: str, job: str | None = None
) -> Iterator[Callable[[Manifest], None]]:
    """The record of an export in the store: done, when told its manifest, or failed, and why."""
    started = time.monotonic()
    export_id = store.record_export(name, str(path), format, job)

    def done(manifest: Manifest) -> None:
        store.finish_export(
            export_id,
            rules=manifest.rules,
            bytes=manifest.bytes,
            sha256=manifest.sha256,
            position=manifest.position,
            manifest=manifest.text(),
            seconds=time.monotonic() - started,
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


class _Work:
    """What is done within one snapshot, in a working folder."""

    def __init__(
        self,
        work: Path,
        snapshot: Snapshot,
        options: ExportOptions,
        format: Format,
        compression: Compression,
        report: Report | None,
        output: Path | None = None,
    ) -> None:
        self._work = work
        self._output = output or work
        self._snapshot = snapshot
        self._options = options
        self._format = format
        self._compression = compression
        self._report = report or (lambda *_: None)
        self._settings: Settings = snapshot.settings()
        try:
            self._notation = notation_of(self._settings.grammar)
            check_kind(format, self._notation)
            features = format.of_grammar(self._notation, options.features)
        except ValueError as error:
            raise ExportError(str(error)) from error
        self._options = options.model_copy(update={"features": features})
        self._filters: list[FilterCount] = []

    def write(self, name: str, glue_name: str, final: Path | None = None) -> Written:
        """Writes the rules, and the glue rules if there are any, under the names into the output folder.

        With `final`, the name that the folder will have, grammars by sentence.
        """
        options, samples = self._options, self._settings.samples if self._options.sampled else 1
        last = self._snapshot.status().rules if options.corpus is None else None
        with scratch(self._work) as database:
            shape = sorted(shape_of(options).union(self._format.shape))
            load_rules(database, self._snapshot, options, shape, lambda done: self._report("read", done, last))
            if self._needs_alignments():
                corpus = None if options.corpus is None else corpus_id(self._snapshot, options.corpus)
                pairs = None if corpus is not None else sum(self._snapshot.status().pairs.values())
                load_inner_alignments(
                    database, self._snapshot, corpus, options.sampled, lambda done: self._report("align", done, pairs)
                )
            self._filters = apply_filters(database, options, samples)
            total = self._filters[-1].after if self._filters else database.row("SELECT count(*) FROM rules")[0]
            return write_rules(
                database,
                self._snapshot,
                options,
                self._format,
                samples,
                self._output / name,
                self._output / glue_name,
                self._compress,
                lambda done: self._report("write", done, total),
                final,
            )

    def _needs_alignments(self) -> bool:
        options = self._options
        lexical = any(feature.lexical for feature in self._format.chosen(options.features))
        return LINKS in self._notation.offers and (self._format.alignments or lexical or options.aligned)

    def _compress(self, path: Path) -> CompressedFile:
        return CompressedFile(
            path,
            self._compression,
            level=self._options.level,
            long_distance=self._options.long_distance,
            threads=self._options.compression_threads,
        )

    def manifest(self, url: str, written: Written) -> Manifest:
        """The manifest of what was written."""
        options, settings = self._options, self._settings
        rules, *others = written.files
        return Manifest(
            manifest_version=MANIFEST_VERSION,
            hierogram=version("hierogram"),
            store=url,
            position=self._snapshot.position(),
            model=settings.model,
            seed=settings.seed,
            settings=asdict(settings),
            options=options.model_dump(mode="json"),
            format=options.format,
            compression=self._compression.value,
            features=[feature.name for feature in self._format.chosen(options.features)],
            marginals=options.marginals.value,
            filters=self._filters,
            rules=written.rules,
            file=rules.name,
            bytes=rules.bytes,
            sha256=rules.sha256,
            created_at=today(),
            others=[ExportedFile(other.name, other.bytes, other.sha256) for other in others],
        )
