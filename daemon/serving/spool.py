"""The spool: a watched folder whose files are ingested as pairs.

Writers rename files into the folder or a subfolder, which names the corpus. Names that begin with a dot or end in
`.part` are ignored as incomplete. Files with the same stem and the suffixes `.source`, `.target` and `.alignment` form
one input. Ingested files are moved to `done/`, rejected files to `failed/` with a `.reason` file. If the loop stops
while a file is read, the file is read again when the loop restarts, and pairs of the corpus are not stored twice.

Other users may write to the spool, so files are untrusted. File names may contain any bytes, a separate process reads
the files, and symbolic links below the spool folder are never followed. An error in a file or subfolder affects only
this input.
"""

import errno
import os
import secrets
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from itertools import count
from pathlib import Path
from typing import Any, NamedTuple

from hierogram.daemon.configuration import Configuration
from hierogram.daemon.exceptions import DaemonError, InputError, SpoolError, UsageError
from hierogram.daemon.files import (
    NOT_REGULAR,
    append_suffix,
    create_within,
    folder_within,
    printable,
    strip_input_suffix,
)
from hierogram.daemon.serving.supervision import FATAL, RETRYABLE, Heartbeat, StopFlag, StoppedError, StoreLoop
from hierogram.daemon.text.ingest import IngestReport, store_input
from hierogram.daemon.text.pipeline import make_pipeline, two_languages
from hierogram.daemon.text.reading import IngestOptions, read_in_sandbox
from hierogram.daemon.text.treebanks.ingest import read_trees_in_sandbox
from hierogram.daemon.text.treebanks.reading import TreebankFile
from hierogram.samplers.grammar.kinds import PAIRS, find_grammar_kind
from hierogram.storage.exceptions import StoreRefusedError, WorkerProcessError
from hierogram.storage.store import Store
from hierogram.storage.worker_process import WorkerProcess

DONE, FAILED = "done", "failed"
PART, REASON = ".part", ".reason"
PARALLEL_SUFFIXES = (".source", ".target", ".alignment")
"""Suffixes of the three files of one input, in the order of the arguments of ingest."""
UNALIGNED_SUFFIX = ".unaligned"
"""Suffix of an empty file that marks source and target files as an input without an alignment."""

NBEST_SUFFIX = ".nbest"
"""Suffix of n-best lists in a store of trees, where all other files contain trees or forests."""


@dataclass(frozen=True, slots=True)
class SpoolInput:
    """Files of one input in the spool `folder`, or in its `subfolder`, and its `.unaligned` file or None."""

    folder: Path
    subfolder: str | None
    paths: tuple[Path, ...]
    marker: Path | None = None

    @property
    def corpus(self) -> str | None:
        """Corpus of the input, named by the subfolder, or None."""
        return None if self.subfolder is None else printable(self.subfolder)

    @property
    def name(self) -> str:
        """File names for messages."""
        return " + ".join(printable(path.name) for path in self.paths)

    @property
    def files(self) -> tuple[Path, ...]:
        """Files to move once the input is ingested, including the marker."""
        return self.paths if self.marker is None else (*self.paths, self.marker)


InputKey = tuple[tuple[str, int, int, int], ...]
"""Path, device, inode and modification time in nanoseconds of each file of an input."""


class PendingFiles(NamedTuple):
    """Names of files that wait for other files of their input or cannot be read or moved, and the reason."""

    files: tuple[str, ...]
    reason: str

    def __str__(self) -> str:
        return f"{' and '.join(self.files)}: {self.reason}"


class FileMoveError(DaemonError):
    """The files of one input cannot be moved."""


def create_spool(folder: Path) -> None:
    """Create the spool folders. Raises `SpoolError` unless the folders are readable and writable."""
    for path in (folder, folder / DONE, folder / FAILED):
        try:
            path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise SpoolError(f"spool: {path} cannot be created: {error.strerror or error}") from error
        if path != folder and path.is_symlink():
            # Another user of the spool could create a link that redirects moved files to another folder.
            raise SpoolError(f"spool: {path} must be a folder, not a symbolic link")
        if not os.access(path, os.R_OK | os.W_OK | os.X_OK):
            raise SpoolError(f"spool: {path} must be readable and writable for this user: change its owner or mode")


def find_inputs(folder: Path, unaligned_after: float | None = None) -> tuple[list[SpoolInput], list[PendingFiles]]:
    """Return the complete inputs, oldest first, and files that wait or are in unreadable subfolders.

    `.source` and `.target` form an input without an alignment if they have not changed for `unaligned_after` seconds
    (None: never), or if an `.unaligned` file marks them. Raises `SpoolError` if the folder itself cannot be read.
    """
    inputs: list[tuple[int, SpoolInput]] = []
    incomplete: list[PendingFiles] = []
    for name in (None, *_subfolders(folder)):
        try:
            files = _complete_files(folder, name)
        except OSError as error:
            reason = f"cannot be read: {error.strerror or error}"
            if name is None or error.errno == errno.EIO:
                raise SpoolError(f"spool: {printable(str(folder / (name or '')))} {reason}") from error
            incomplete.append(PendingFiles((printable(name) + "/",), reason))
            continue
        parts_by_stem: dict[str, dict[str, Path]] = {}
        for path, status in files.items():
            stem, suffix = _split_suffix(path.name)
            if suffix in (*PARALLEL_SUFFIXES, UNALIGNED_SUFFIX):
                parts_by_stem.setdefault(stem, {})[suffix] = path
            else:
                inputs.append((status.st_mtime_ns, SpoolInput(folder, name, (path,))))
        for parts in parts_by_stem.values():
            marker = parts.pop(UNALIGNED_SUFFIX, None)
            missing = tuple(suffix for suffix in PARALLEL_SUFFIXES if suffix not in parts)
            if missing == (".alignment",):
                changed_at = max(max(files[path].st_mtime, files[path].st_ctime) for path in parts.values())
                # Use the absolute difference, because the clock may have been set back since the change.
                if marker or (unaligned_after is not None and abs(time.time() - changed_at) >= unaligned_after):
                    missing = ()
            if missing:
                names = sorted(path.name for path in (*parts.values(), marker) if path is not None)
                missing_names = " and ".join(printable(_split_suffix(names[0])[0] + suffix) for suffix in missing)
                incomplete.append(PendingFiles(tuple(map(printable, names)), f"waiting for {missing_names}"))
                continue
            paths = tuple(parts[suffix] for suffix in PARALLEL_SUFFIXES if suffix in parts)
            inputs.append((max(files[path].st_mtime_ns for path in paths), SpoolInput(folder, name, paths, marker)))
    inputs.sort(key=lambda item: (item[0], item[1].name))
    return [spool_input for _, spool_input in inputs], sorted(incomplete)


def _subfolders(folder: Path) -> list[str]:
    try:
        with os.scandir(folder) as entries:
            names = sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    except OSError as error:
        raise SpoolError(f"spool: {printable(str(folder))} cannot be read: {error.strerror or error}") from error
    return [name for name in names if name not in (DONE, FAILED) and not name.startswith(".")]


def _complete_files(folder: Path, subfolder: str | None) -> dict[Path, os.stat_result]:
    files = {}
    names = () if subfolder is None else (subfolder,)
    with folder_within(folder, *names) as descriptor, os.scandir(descriptor) as entries:
        for entry in entries:
            if entry.name.startswith(".") or entry.name.endswith(PART) or entry.is_dir(follow_symlinks=False):
                continue
            # Another process may have moved or deleted the file.
            with suppress(FileNotFoundError):
                files[folder.joinpath(*names, entry.name)] = entry.stat(follow_symlinks=False)
    return files


def _split_suffix(name: str) -> tuple[str, str]:
    """Split `news.source.gz` into `news` and `.source`."""
    stem, dot, last = strip_input_suffix(name).rpartition(".")
    return stem, dot + last


def ingest_input(
    store: Store,
    spool_input: SpoolInput,
    reader: WorkerProcess,
    check_stop: Callable[[], None],
    corpus: str,
    options: IngestOptions,
) -> IngestReport:
    """Ingest an input with the process `reader`, into the corpus of its subfolder or else into `corpus`."""
    for path in spool_input.paths:
        if not stat.S_ISREG(path.lstat().st_mode):
            raise InputError(f"{printable(str(path))}: {NOT_REGULAR}")
    paths, corpus = [str(path) for path in spool_input.paths], spool_input.corpus or corpus
    # Let the reader check the files again, because other users may replace them before it opens them.
    options = replace(options, untrusted_folder=str(spool_input.folder))
    settings = store.settings()
    if find_grammar_kind(settings.grammar).input_kind == PAIRS:
        messages = reader.run(check_stop, read_in_sandbox, paths, settings, options)
    elif len(paths) > 1:
        raise InputError(f"{printable(paths[0])}: this store ingests single files of trees, not bitexts")
    else:
        is_nbest = _split_suffix(spool_input.paths[0].name)[1] == NBEST_SUFFIX
        treebank = TreebankFile(paths[0], is_nbest, options.limits, options.untrusted_folder)
        messages = read_trees_in_sandbox(store, reader, treebank, check_stop)
    return store_input(store, corpus, options.limits, messages, lambda _: check_stop())


def move_input(spool_input: SpoolInput, reason: str | None = None) -> str:
    """Move files to `done/`, or with a `reason` to `failed/`. Returns the first new path."""
    target = spool_input.folder / (DONE if reason is None else FAILED)
    try:
        return printable(os.path.abspath(_move_files(spool_input, target, reason)))
    except OSError as error:
        message = f"{spool_input.name} cannot be moved to {printable(str(target))}: {error.strerror or error}"
        for names in ((), (target.name,)):
            if problem := _folder_problem(spool_input.folder, *names):
                path = printable(str(spool_input.folder.joinpath(*names)))
                raise SpoolError(f"spool: {message}; {path} cannot be written: {problem}") from error
        raise FileMoveError(message) from error


def _move_files(spool_input: SpoolInput, target: Path, reason: str | None) -> Path:
    names = () if spool_input.subfolder is None else (spool_input.subfolder,)
    moved: list[Path] = []
    with (
        folder_within(spool_input.folder, *names) as folder_descriptor,
        _target_folder(target, spool_input.subfolder) as (target_descriptor, display_path),
    ):
        for path in spool_input.files:
            if not _exists_in(folder_descriptor, path.name):
                continue
            for free_name in _numbered_names(target_descriptor, path.name):
                reason_name = append_suffix(target_descriptor, free_name, REASON)
                if not _exists_in(target_descriptor, free_name) and not _exists_in(target_descriptor, reason_name):
                    break
            # Write the reason first, so that it exists when the file appears.
            if reason is not None:
                create_within(target_descriptor, reason_name, (printable(reason) + "\n").encode())
            # Another process may have removed the file.
            with suppress(FileNotFoundError):
                os.rename(path.name, free_name, src_dir_fd=folder_descriptor, dst_dir_fd=target_descriptor)
            moved.append(display_path / free_name)
    return moved[0] if moved else target


def _numbered_names(folder: int, name: str) -> Iterator[str]:
    return (append_suffix(folder, name, f".{number}") if number else name for number in count())


def _exists_in(folder: int, name: str) -> bool:
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def input_key(spool_input: SpoolInput) -> InputKey:
    """Return a key that distinguishes an input from later files with the same names."""
    stats = []
    for path in spool_input.files:
        with suppress(OSError):
            status = path.lstat()
            stats.append((str(path), status.st_dev, status.st_ino, status.st_mtime_ns))
    return tuple(stats)


@contextmanager
def _target_folder(target: Path, wanted: str | None) -> Iterator[tuple[int, Path]]:
    """Open the target folder, or create and open the subfolder `wanted`, numbered if this is a file."""
    with folder_within(target.parent, target.name) as target_descriptor:
        if wanted is None:
            yield target_descriptor, target
            return
        for name in _numbered_names(target_descriptor, wanted):
            with suppress(FileExistsError):
                os.mkdir(name, dir_fd=target_descriptor)
            if stat.S_ISDIR(os.stat(name, dir_fd=target_descriptor, follow_symlinks=False).st_mode):
                break
    with folder_within(target.parent, target.name, name) as descriptor:
        yield descriptor, target / name


def _folder_problem(folder: Path, *names: str) -> str | None:
    """Return an error message if files in a folder cannot be created and deleted, or None."""
    probe = f".probe-{os.getpid()}-{secrets.token_hex(8)}"
    try:
        with folder_within(folder, *names) as descriptor:
            try:
                create_within(descriptor, probe, b"probe")
            except OSError:
                with suppress(OSError):
                    os.unlink(probe, dir_fd=descriptor)
                raise
            os.unlink(probe, dir_fd=descriptor)
    except OSError as error:
        return error.strerror or str(error)
    return None


class SpoolLoop(StoreLoop):
    """Loop that watches the spool. Idle if no spool is configured."""

    name = "ingest"
    sections = frozenset({"spool", "intake"})

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self._read: Callable[[SpoolInput], IngestReport]
        self._polls: dict[PendingFiles, int] = {}
        """Number of consecutive polls that found the files waiting."""
        self._retried: set[InputKey] = set()
        """Keys of inputs whose reading failed once for reasons other than their content."""
        self._unmovable: dict[InputKey, PendingFiles] = {}
        """Inputs that were ingested or rejected, but could not be moved."""

    def prepare(self, configuration: Configuration) -> None:
        """Create the spool folders. Raises `SpoolError` if this fails or the store refuses the languages."""
        folder = configuration.spool.folder
        if folder is not None:
            create_spool(folder)
            self._ingest_options(configuration)

    def _ingest_options(self, configuration: Configuration) -> IngestOptions:
        section, settings = configuration.spool, self._store.settings()
        try:
            languages = two_languages(section.languages, "languages") if section.languages else None
            make_pipeline(settings, languages)
        except UsageError as error:
            raise SpoolError(f"spool: {error}") from error
        return IngestOptions(languages, configuration.intake)

    def run(self, stop: StopFlag, beat: Heartbeat) -> None:
        """Ingest inputs as they arrive, oldest first; see `Loop.run`."""
        configuration = self._configuration()
        section, folder = configuration.spool, configuration.spool.folder
        # Check that the store is available, because reading the first file can take minutes.
        self._store.position()
        beat.progress()

        def check_stop() -> None:
            beat()
            if stop.is_set():
                raise StoppedError("the loop is stopping: the file will be read again when it restarts")

        with closing(WorkerProcess()) as reader:
            if folder is not None:
                create_spool(folder)
                options = self._ingest_options(configuration)
                self._read = lambda files: ingest_input(self._store, files, reader, check_stop, section.corpus, options)
            while not stop.is_set():
                if folder is not None and not self._poll(folder, section.unaligned_after, stop, beat):
                    # End the reader process, which would keep its memory while it waits for files.
                    reader.close()
                beat.ok()
                stop.wait(section.poll_seconds)

    def _poll(self, folder: Path, unaligned_after: float | None, stop: StopFlag, beat: Heartbeat) -> bool:
        """Ingest the inputs in the spool. Returns False if there were none."""
        inputs, incomplete = find_inputs(folder, unaligned_after)
        keys = {spool_input: input_key(spool_input) for spool_input in inputs}
        present = set(keys.values())
        self._unmovable = {key: unmovable for key, unmovable in self._unmovable.items() if key in present}
        self._retried &= present
        pending = sorted([*incomplete, *self._unmovable.values()])
        self._report_waiting(pending)
        inputs = [spool_input for spool_input in inputs if keys[spool_input] not in self._unmovable]
        waiting = sum(len(files.files) for files in pending)
        for done, spool_input in enumerate(inputs):
            self._health.spool = replace(self._health.spool, waiting=len(inputs) - done + waiting)
            if stop.is_set():
                return True
            try:
                self._ingest(spool_input, keys[spool_input])
            except FileMoveError as error:
                # Remember the file, which would otherwise be ingested again in every round.
                self._unmovable[keys[spool_input]] = PendingFiles((spool_input.name,), str(error))
                self._log.error("file cannot be moved", file=spool_input.name, reason=str(error))
            beat.ok()
        self._health.spool = replace(self._health.spool, waiting=waiting)
        return bool(inputs)

    def _report_waiting(self, waiting: list[PendingFiles]) -> None:
        """Report waiting files. A warning is logged once, at the second poll that finds the files waiting."""
        self._health.spool = replace(self._health.spool, incomplete=tuple(map(str, waiting)))
        self._polls = {files: self._polls.get(files, 0) + 1 for files in waiting}
        for files, polls in self._polls.items():
            if polls == 2:
                self._log.warning("files are waiting", files=list(files.files), reason=str(files))

    def _ingest(self, spool_input: SpoolInput, key: InputKey) -> None:
        """Ingest an input and move its files, or reject it. Raises errors that affect all inputs."""
        try:
            report = self._read(spool_input)
        except FileNotFoundError:
            self._log.warning("file disappeared before it was read", file=spool_input.name)
        except StoppedError:
            self._log.info("reading stopped, the file will be read again", file=spool_input.name)
        except (InputError, UsageError) as error:
            self._reject(spool_input, str(error))
        except Exception as error:
            # These errors affect all files, except their subclass `StoreRefusedError`, which affects one file.
            if isinstance(error, FATAL + RETRYABLE) and not isinstance(error, StoreRefusedError):
                raise
            self._retry_or_reject(spool_input, key, error)
        else:
            self._retried.discard(key)
            move_input(spool_input)
            self._health.spool = replace(self._health.spool, done=self._health.spool.done + 1)
            self._log.info(
                "file ingested", file=spool_input.name, corpus=report.corpus, **asdict(report.totals),
                reasons=dict(report.reasons), seconds=round(report.seconds, 3),
            )  # fmt: skip
            for note in report.notes:
                self._log.warning("note on file", file=spool_input.name, note=note.code, reason=note.text)

    def _retry_or_reject(self, spool_input: SpoolInput, key: InputKey, error: Exception) -> None:
        """Leave an input for the next poll, or reject it if its reading failed before."""
        message = printable(str(error) or type(error).__name__)
        # Messages of these errors are written for users and need no traceback.
        trace = None if isinstance(error, (DaemonError, WorkerProcessError)) else error
        if key not in self._retried:
            self._retried.add(key)
            self._log.warning("reading failed, will be retried", file=spool_input.name, reason=message, exc_info=trace)
        else:
            self._retried.remove(key)
            self._reject(spool_input, f"{printable(str(spool_input.paths[0]))}: {message} (2 times)", trace)

    def _reject(self, spool_input: SpoolInput, reason: str, trace: Exception | None = None) -> None:
        if not all(os.path.lexists(path) for path in spool_input.paths):
            self._log.warning("file disappeared while it was read", file=spool_input.name)
            return
        name, corpus = spool_input.name, spool_input.corpus or self._configuration().spool.corpus
        self._store.record_failed_file(name, corpus, printable(reason), lambda: move_input(spool_input, reason))
        self._health.spool = replace(self._health.spool, failed=self._health.spool.failed + 1)
        self._log.warning("file failed", file=name, reason=printable(reason), exc_info=trace)
