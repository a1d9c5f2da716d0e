"""The spool: a watched folder whose files become stored pairs.

Files appear by being renamed into the folder (or a subfolder, which names the corpus). Names that begin with a dot or
end in `.part` are still being written. Files that end in `.source`, `.target` and `.alignment` are one input. What is
taken in moves to `done/`, what cannot be read to `failed/` with a `.reason` beside it. A file that was being read when
the daemon ended is read again: known pairs are not stored twice.
"""

import os
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from hierogram.daemon.corpora.ingest import AS_THE_STORE, DEFAULT_CORPUS, Handling, IngestProgress, IngestReport, ingest
from hierogram.daemon.corpora.inputs import Input
from hierogram.daemon.exceptions import DaemonError, InputError, SpoolError
from hierogram.daemon.treebanks.ingest import TreebankFile, ingest_trees
from hierogram.samplers.grammar.kinds import PAIRS, PARSES, notation_of
from hierogram.storage.store import Store

DONE, FAILED = "done", "failed"
PART, REASON = ".part", ".reason"
PARALLEL_ENDINGS = (".source", ".target", ".alignment")
"""Endings of three files that belong together, in the order in which ingest takes them."""
UNALIGNED_ENDING = ".unaligned"
"""Ending of an empty file that says that source and target come without an alignment."""

NBEST_ENDING = ".nbest"
"""Ending of files of n-best lists of trees, in a store of trees; every other file there has trees or forests."""

_COMPRESSED = (".gz", ".zst")


@dataclass(frozen=True, slots=True)
class Offer:
    """Files that make up one input, and its corpus: the name of a subfolder, None for the folder itself."""

    paths: tuple[Path, ...]
    corpus: str | None
    marker: Path | None = None

    @property
    def name(self) -> str:
        """The files' names, as a log has them."""
        return " + ".join(path.name for path in self.paths)

    @property
    def files(self) -> tuple[Path, ...]:
        """All files that are done with when the input is: a marker goes with those that it is about."""
        return self.paths if self.marker is None else (*self.paths, self.marker)


@dataclass(frozen=True, slots=True)
class Incomplete:
    """Files that wait for others of their three: their names, and the endings of those that are missing."""

    files: tuple[str, ...]
    missing: tuple[str, ...]

    @property
    def told(self) -> str:
        """For people."""
        stem = _ending(self.files[0])[0]
        return f"{' and '.join(self.files)}: waiting for {' and '.join(stem + ending for ending in self.missing)}"


class StoppedError(DaemonError):
    """The daemon was asked to end while it read a file."""


def prepare(folder: Path) -> None:
    """Makes the folder and those where files go; raises `SpoolError` where that cannot be, or files cannot be moved."""
    for path in (folder, folder / DONE, folder / FAILED):
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SpoolError(f"spool: {path} cannot be made: {error.strerror or error}") from error
        if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
            raise SpoolError(f"spool: {path} cannot be read and written by this user: change its owner or mode")


def offers(folder: Path, unaligned_after: float | None = None) -> tuple[list[Offer], list[Incomplete]]:
    """What can be taken in now, oldest first, and the files that wait for the others of their three.

    Source and target are an input without an alignment where a marker says so, or where neither has changed for
    `unaligned_after` seconds. Raises `SpoolError` where the folder cannot be read.
    """
    found: list[tuple[int, Offer]] = []
    incomplete: list[Incomplete] = []
    for place, corpus in _places(folder):
        files = _files(place)
        together: dict[str, dict[str, Path]] = {}
        for path, status in files.items():
            stem, ending = _ending(path.name)
            if ending in (*PARALLEL_ENDINGS, UNALIGNED_ENDING):
                together.setdefault(stem, {})[ending] = path
            else:
                found.append((status.st_mtime_ns, Offer((path,), corpus)))
        for parts in together.values():
            marker = parts.pop(UNALIGNED_ENDING, None)
            missing = tuple(ending for ending in PARALLEL_ENDINGS if ending not in parts)
            if missing == (".alignment",) and (
                marker or _rest([files[path] for path in parts.values()], unaligned_after)
            ):
                missing = ()
            if missing:
                names = [path.name for path in (*parts.values(), marker) if path is not None]
                incomplete.append(Incomplete(tuple(sorted(names)), missing))
                continue
            paths = tuple(parts[ending] for ending in PARALLEL_ENDINGS if ending in parts)
            found.append((max(files[path].st_mtime_ns for path in paths), Offer(paths, corpus, marker)))
    found.sort(key=lambda item: (item[0], item[1].name))
    return [offer for _, offer in found], sorted(incomplete, key=lambda files: files.files)


def _rest(statuses: Sequence[os.stat_result], seconds: float | None) -> bool:
    """Whether files have come to their places, and were last written, so long ago."""
    if seconds is None:
        return False
    return max(max(status.st_mtime, status.st_ctime) for status in statuses) <= time.time() - seconds


def _places(folder: Path) -> Iterator[tuple[Path, str | None]]:
    """The folder itself and those within it that name corpora."""
    yield folder, None
    try:
        names = sorted(entry.name for entry in os.scandir(folder) if entry.is_dir(follow_symlinks=False))
    except OSError as error:
        raise SpoolError(f"spool: {folder} cannot be read: {error.strerror or error}") from error
    for name in names:
        if name not in (DONE, FAILED) and not name.startswith("."):
            yield folder / name, name


def _files(place: Path) -> dict[Path, os.stat_result]:
    """What lies in a folder and is no longer being written."""
    files = {}
    try:
        for entry in os.scandir(place):
            if entry.name.startswith(".") or entry.name.endswith(PART) or entry.is_dir(follow_symlinks=False):
                continue
            # A file that is gone by now is someone else's affair.
            with suppress(FileNotFoundError):
                files[Path(entry.path)] = entry.stat(follow_symlinks=False)
    except OSError as error:
        raise SpoolError(f"spool: {place} cannot be read: {error.strerror or error}") from error
    return files


def _ending(name: str) -> tuple[str, str]:
    """The name without the ending that tells its part, and that ending; compression is looked through."""
    plain = name
    for ending in _COMPRESSED:
        plain = plain.removesuffix(ending)
    stem, dot, last = plain.rpartition(".")
    return stem, dot + last


@dataclass(frozen=True, slots=True)
class Taking:
    """How offers are taken in: without a corpus, into `corpus`; `stopped` is asked and `beat` called often."""

    corpus: str = DEFAULT_CORPUS
    handling: Handling = AS_THE_STORE
    stopped: Callable[[], bool] = lambda: False
    beat: Callable[[], None] = lambda: None


def take_in(store: Store, offer: Offer, taking: Taking) -> IngestReport:
    """Stores the pairs of the offered files.

    Raises `InputError` where they are no input (set them apart), `StoppedError` in the middle of a file when `stopped`
    says so, `UsageError` where their languages are not the store's, and `StoreUnavailableError` (try again later).
    """
    for path in offer.paths:
        if not stat.S_ISREG(path.lstat().st_mode):
            raise InputError(f"{path}: is no regular file")

    def tell(_now: IngestProgress) -> None:
        taking.beat()
        if taking.stopped():
            raise StoppedError("the daemon was asked to end; the file is read again when it is back")

    read = _READERS[notation_of(store.settings().grammar).takes]
    return read(store, [str(path) for path in offer.paths], offer.corpus or taking.corpus, tell, taking.handling)


def _take_in_pairs(
    store: Store, paths: list[str], corpus: str, tell: Callable[[IngestProgress], None], handling: Handling
) -> IngestReport:
    with Input(paths, limits=handling.limits) as source:
        return ingest(store, source, corpus, tell, handling)


def _take_in_trees(
    store: Store, paths: list[str], corpus: str, tell: Callable[[IngestProgress], None], handling: Handling
) -> IngestReport:
    if len(paths) > 1:
        raise InputError(f"{paths[0]}: is part of a bitext, and this store takes files of trees, one at a time")
    lists = _ending(Path(paths[0]).name)[1] == NBEST_ENDING
    return ingest_trees(store, TreebankFile(paths[0], lists, handling.limits), corpus=corpus, report=tell)


_READERS = {PAIRS: _take_in_pairs, PARSES: _take_in_trees}
"""How files are read, by what a store takes."""


def set_apart(folder: Path, offer: Offer, reason: str) -> None:
    """Moves files that cannot be taken in to `failed/`, each with the reason beside it."""
    target = folder / FAILED / (offer.corpus or "")
    try:
        target.mkdir(exist_ok=True)
        for path in offer.files:
            free = _free(target, path.name)
            # The reason first: who sees the file shall find out why.
            free.with_name(free.name + REASON).write_text(reason + "\n", encoding="utf-8")
            path.rename(free)
    except OSError as error:
        raise SpoolError(f"spool: {offer.name} cannot be moved to {target}: {error.strerror or error}") from error


def move_done(folder: Path, offer: Offer) -> None:
    """Moves files that were taken in to `done/`, those of a corpus to a folder of its name there."""
    target = folder / DONE / (offer.corpus or "")
    try:
        target.mkdir(exist_ok=True)
        for path in offer.files:
            path.rename(_free(target, path.name))
    except OSError as error:
        raise SpoolError(f"spool: {offer.name} cannot be moved to {target}: {error.strerror or error}") from error


def _free(folder: Path, name: str) -> Path:
    """A path in the folder that no file has: the name, or the name with a number."""
    path = folder / name
    number = 1
    while os.path.lexists(path) or os.path.lexists(path.with_name(path.name + REASON)):
        path = folder / f"{name}.{number}"
        number += 1
    return path
