"""One export from one snapshot of the store: to a file, to a stream, or as a new version in a folder."""

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import BinaryIO, Protocol

from hierogram.daemon.corpora.texts import pipeline_of
from hierogram.daemon.exceptions import ExportError, NothingLearnedError
from hierogram.daemon.exports.compression import CompressedFile
from hierogram.daemon.exports.filters import FilterCount, apply_filters, shape_of
from hierogram.daemon.exports.formats.registry import usual_format
from hierogram.daemon.exports.manifest import MANIFEST_VERSION, ExportedFile, Manifest, manifest_path, today
from hierogram.daemon.exports.naming import GLUE, GRAMMAR, HowWritten, decided, glue_name
from hierogram.daemon.exports.options import ExportOptions
from hierogram.daemon.exports.publication import (
    MANIFEST,
    Versions,
    only_one,
    publish_files,
    publish_folder,
    retire,
    version_name,
    working_folder,
)
from hierogram.daemon.exports.tables.lexicon import load_word_pairs
from hierogram.daemon.exports.tables.loading import Counted, corpus_id, load_rules
from hierogram.daemon.exports.tables.rule_alignments import load_inner_alignments
from hierogram.daemon.exports.tables.scratch import Scratch, scratch
from hierogram.daemon.exports.writing import Place, Wanted, Written, write_rules
from hierogram.daemon.plain_options import all_plain
from hierogram.samplers.grammar.kinds import LINKS, notation_of
from hierogram.samplers.grammar.uses import ONE_USE, SWEEPS_A_DRAW
from hierogram.storage.exceptions import StoreError
from hierogram.storage.exports.snapshot import Snapshot
from hierogram.storage.records import UNALIGNED, StoreStatus
from hierogram.storage.store import Store


class Record(Protocol):
    """Records in the store that an export is done."""

    def __call__(self, manifest: Manifest, version: str | None = None) -> None:
        """The manifest, and the name of the folder of a version."""


Report = Callable[[str, int, int | None], None]
"""Hears what is being done (`read`, `align`, `write`), how much of it is done, and of how much, where that is known."""


@dataclass(frozen=True, slots=True)
class Published:
    """A new version: its folder, its manifest, and the old versions that left."""

    folder: Path
    manifest: Manifest
    retired: list[Path]


def export(
    store: Store, path: Path | None = None, options: ExportOptions | None = None, report: Report | None = None
) -> Manifest:
    """Writes the store's grammar to `path`, its manifest (and glue rules, where the format has them) beside it.

    Without a path it is `grammar` with the endings of format and compression, in the current folder. The same grammar
    under the same options gives the same bytes. Raises `ExportError`, `UsageError`
    where name and options contradict each other, and `NothingLearnedError`.
    """
    how = _decided(store, options, path)
    path = Path(GRAMMAR + how.ending).absolute() if path is None else path.absolute()
    _check_folder(path.parent, path)
    with (
        _recorded(store, path.name, path, how.format.name) as record,
        working_folder(path.parent, path.name) as work,
    ):
        with store.snapshot() as snapshot:
            made = _Work(work, snapshot, how, report)
            written = made.write(work / path.name, work / glue_name(path.name))
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


def export_to(
    store: Store, stream: BinaryIO, options: ExportOptions | None = None, report: Report | None = None
) -> Manifest:
    """Writes the store's grammar to a stream, as `export` writes it to a file whose name says nothing.

    Glue rules and the manifest are not written; the manifest is kept in the store's table of exports.
    """
    name = Path("-")
    how = _decided(store, options, name)
    with (
        _recorded(store, str(name), name, how.format.name) as record,
        tempfile.TemporaryDirectory(prefix="hierogram-") as folder,
        working_folder(Path(folder), GRAMMAR) as work,
    ):
        with store.snapshot() as snapshot:
            made = _Work(work, snapshot, how, report)
            written = made.write(work / GRAMMAR, work / GLUE)
            manifest = made.manifest(store.url, written)
        with (work / GRAMMAR).open("rb") as file:
            shutil.copyfileobj(file, stream)
        stream.flush()
        record(manifest)
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
    """Writes the store's grammar as a new version into a folder (made if need be), and moves `latest` to it.

    A version is a folder with the grammar, glue rules where the format has them, and `manifest.json`. Then the versions
    leave that are not to stay. With `by_sentence` it holds a cdec grammar for each sentence of the test set instead,
    and a list that names them. Raises what `export` raises; the versions before stay as they are.
    """
    options, notation = options or ExportOptions(), notation_of(store.settings().grammar)
    folder, name = versions.folder.absolute(), versions.name
    with _recorded(store, name, folder, options.format or usual_format(notation).name, job) as record:
        how = decided(options, notation)
        folder.mkdir(parents=True, exist_ok=True)
        with only_one(folder, name), working_folder(folder, name) as work:
            now = datetime.now(UTC)
            final = folder / version_name(folder, name, now)
            new = work / "version"
            new.mkdir()
            with store.snapshot() as snapshot:
                made = _Work(work, snapshot, how, report)
                written = made.write(
                    new / (GRAMMAR + how.ending), new / (GLUE + how.ending), final if by_sentence else None
                )
                manifest = made.manifest(store.url, written)
            (new / MANIFEST).write_text(manifest.text(), encoding="utf-8")
            publish_folder(new, final)
            retired = retire(versions, now)
        record(manifest, final.name)
    return Published(final, manifest, retired)


def _decided(store: Store, options: ExportOptions | None, path: Path | None = None) -> HowWritten:
    return decided(options or ExportOptions(), notation_of(store.settings().grammar), path)


def _check_folder(folder: Path, path: Path) -> None:
    if not folder.is_dir():
        raise ExportError(f"{path}: the folder {folder} does not exist: make it first")


@contextmanager
def _recorded(store: Store, name: str, path: Path, format: str, job: str | None = None) -> Iterator[Record]:
    """The record of an export in the store: done, when it gets the manifest (and a version), or failed, and why."""
    started = time.monotonic()
    export_id = store.record_export(name, str(path), format, job)

    def done(manifest: Manifest, version: str | None = None) -> None:
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


class _Work:
    """What is done within one snapshot, in a working folder."""

    def __init__(self, work: Path, snapshot: Snapshot, how: HowWritten, report: Report | None) -> None:
        self._work = work
        self._snapshot = snapshot
        self._how = how
        self._report = report or (lambda *_: None)
        self._settings = snapshot.settings()
        options = how.options
        corpus = None if options.corpus is None else corpus_id(snapshot, options.corpus)
        counted = Counted(corpus, not options.drawn)
        self._wanted = Wanted(options, how.format, counted, 1 if options.drawn else ONE_USE)
        self._filters: list[FilterCount] = []

    def write(self, path: Path, glue: Path, final: Path | None = None) -> Written:
        """Writes the rules, and the glue rules if there are any, to new files.

        With `final`, the name that the folder will have, grammars by sentence. Raises `NothingLearnedError`.
        """
        wanted, snapshot = self._wanted, self._snapshot
        status = snapshot.status()
        if not status.rules:
            raise NothingLearnedError(status.url)
        with scratch(self._work) as database:
            self._load(database, status)
            side = pipeline_of(self._settings).source
            self._filters = apply_filters(database, wanted.options, wanted.samples, side)
            total = self._filters[-1].after if self._filters else database.row("SELECT count(*) FROM rules")[0]
            place = Place(path, glue, self._compress, final)
            return write_rules(database, snapshot, wanted, place, lambda done: self._report("write", done, total))

    def _load(self, database: Scratch, status: StoreStatus) -> None:
        """Makes the view `rules` of what is to be written."""
        wanted, snapshot = self._wanted, self._snapshot
        linked = sum(number for state, number in status.pairs.items() if state != UNALIGNED)
        pairs = linked if wanted.counted.corpus is None else None
        if wanted.format.words:
            blocks = snapshot.pair_blocks(wanted.counted.corpus)
            load_word_pairs(database, blocks, wanted.samples, lambda done: self._report("count", done, pairs))
            return
        shape = sorted(shape_of(wanted.options).union(wanted.format.shape))
        sampled, whole = wanted.counted.sampled, wanted.counted.corpus is None
        total = snapshot.count_rules(sampled=sampled) if whole else None
        what = "read" if whole else "count"
        load_rules(database, snapshot, wanted.counted, shape, lambda done: self._report(what, done, total))
        if self._needs_alignments():
            load_inner_alignments(database, snapshot, wanted.counted, lambda done: self._report("align", done, pairs))

    def _needs_alignments(self) -> bool:
        wanted = self._wanted
        asked = wanted.format.alignments or wanted.lexical or wanted.options.aligned
        return LINKS in notation_of(self._settings.grammar).offers and asked

    def _compress(self, path: Path) -> CompressedFile:
        options = self._wanted.options
        return CompressedFile(
            path,
            self._how.compression,
            level=options.level,
            long_distance=options.long_distance,
            threads=options.compression_threads,
        )

    def manifest(self, url: str, written: Written) -> Manifest:
        """The manifest of what was written."""
        options, settings = self._wanted.options, self._settings
        rules, *others = written.files
        return Manifest(
            manifest_version=MANIFEST_VERSION,
            hierogram=version("hierogram"),
            store=url,
            position=self._snapshot.position(),
            model=settings.model,
            seed=settings.seed,
            settings=asdict(settings),
            options=all_plain(options),
            format=self._how.format.name,
            compression=self._how.compression.value,
            features=[feature.name for feature in self._wanted.features],
            normalization=options.normalization.value,
            filters=self._filters,
            rules=written.rules,
            file=rules.name,
            bytes=rules.bytes,
            sha256=rules.sha256,
            created_at=today(),
            others=[ExportedFile(other.name, other.bytes, other.sha256) for other in others],
            variance_a_use=float(SWEEPS_A_DRAW) if options.drawn else self._snapshot.variance_a_use(),
        )
