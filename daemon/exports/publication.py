"""Exports on disk and in object storage. A file or version appears completely or not at all.

On disk, files are written to a hidden folder beside the destination, and then renamed. A process locks its hidden
folder, so that later processes can recognize and remove the folders of killed processes. The link `latest` is replaced
atomically.

In object storage, a version exists if it has a manifest, which is uploaded last and deleted first. The object `latest`
contains the name of the newest version.
"""

import fcntl
import json
import os
import re
import secrets
import shutil
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime, timedelta
from glob import escape
from pathlib import Path
from typing import Any, cast

from hierogram.daemon.exceptions import ExportError
from hierogram.daemon.files import flush_to_disk
from hierogram.storage.exceptions import install_extra

MANIFEST_VERSION = 4
LATEST = "latest"
MANIFEST = "manifest.json"

_LOCK = "lock"
_MAX_UNLOCKED_SECONDS = 60
_MAX_UPLOAD_TIME = timedelta(days=1)
_TIME_FORMAT = "%Y%m%dT%H%M%SZ"


@dataclass(frozen=True, slots=True)
class FilterCount:
    """Name of a filter, and the numbers of rules before and after it."""

    filter: str
    before: int
    after: int


@dataclass(frozen=True, slots=True)
class ExportedFile:
    """File of an export, with its size in bytes and its SHA-256."""

    name: str
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """Manifest of an export. docs/exports.md describes the fields."""

    manifest_version: int
    hierogram: str
    store: str
    position: int
    model: str
    seed: int
    settings: dict[str, Any]
    options: dict[str, Any]
    format: str
    compression: str
    features: list[str]
    filters: list[FilterCount]
    rules: int
    file: str
    bytes: int
    sha256: str
    created_at: str
    extra_files: list[ExportedFile] = field(default_factory=list)
    variance_per_use: float | None = None
    grammar_position: int = 0
    last_event_id: int = 0
    filter_for_sha256: str | None = None

    def text(self) -> str:
        """Return the text of the manifest file."""
        return json.dumps(asdict(self), indent=2, ensure_ascii=False) + "\n"


def manifest_path(path: Path) -> Path:
    """Return the path of the manifest of an exported file: the file's name plus `.json`."""
    return path.with_name(path.name + ".json")


def read_manifest(path: Path) -> dict[str, Any]:
    """Return the content of a manifest file. Raises `ExportError` if it is unreadable or not a manifest."""
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ExportError(f"{path}: cannot be read as a manifest: {error}") from error
    if not isinstance(content, dict) or "manifest_version" not in content:
        raise ExportError(f"{path}: not an export manifest")
    return content


@dataclass(frozen=True, slots=True)
class Versions:
    """Versions with the prefix `name` in a folder.

    A version other than `latest` expires if `keep` newer versions exist, or if it is older than `max_age`. None means
    no limit.
    """

    folder: Path
    name: str
    keep: int | None = None
    max_age: timedelta | None = None


def open_folder(to: str | os.PathLike[str]) -> Path:
    """Return the folder at a path or a URL, such as `s3://bucket/prefix`. Raises `ExportError`."""
    if "://" not in str(to):
        return Path(to).absolute()
    try:
        from upath import UPath

        folder = UPath(str(to).rstrip("/"), use_listings_cache=False)
        # Access the file system now, to report an unknown scheme or a missing package.
        _ = folder.fs
    except (ImportError, ValueError) as error:
        hint = f"{install_extra('s3')}, or install the fsspec package of this storage"
        raise ExportError(f"{to}: cannot be opened ({error}): {hint}") from error
    return cast("Path", folder)


def is_object_storage(folder: Path) -> bool:
    """Check if the folder is a URL of object storage."""
    return "://" in str(folder)


def _storage(url: Any) -> tuple[Any, str]:
    """Return the fsspec file system of a `UPath`, and the bucket and key within it."""
    return url.fs, str(url.path)


def canonical_folder(to: str | Path) -> str:
    """Return a folder's path with symbolic links resolved, or its URL. Equal results mean the same folder."""
    return str(to).rstrip("/") if "://" in str(to) else os.path.realpath(to)


@contextmanager
def working_folder(folder: Path, name: str) -> Iterator[Path]:
    """Create a hidden folder in `folder`, and delete it on exit. Also deletes folders of killed processes."""
    if is_object_storage(folder):
        folder = Path(tempfile.gettempdir())
    for leftover in folder.glob(f".{escape(name)}.*.tmp"):
        if _is_abandoned(leftover):
            shutil.rmtree(leftover, ignore_errors=True)
    with (
        tempfile.TemporaryDirectory(".tmp", f".{name}.", folder, ignore_cleanup_errors=True) as path,
        Path(path, _LOCK).open("x") as lock,
    ):
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield Path(path)


def _is_abandoned(folder: Path) -> bool:
    try:
        with (folder / _LOCK).open("r+") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
    except BlockingIOError:
        return False
    except OSError:
        # Ignore a recent folder without a lock, because its process may not have locked it yet.
        with suppress(OSError):
            return time.time() - folder.stat().st_mtime > _MAX_UNLOCKED_SECONDS
        return False


@contextmanager
def lock_versions(folder: Path, name: str) -> Iterator[None]:
    """Lock the versions of a name, except in object storage. Raises `ExportError` if they are locked."""
    if is_object_storage(folder):
        yield
        return
    path = folder / f".{name}.lock"
    with path.open("a") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise ExportError(
                f"{folder / name}: another export is writing this version: wait until it is done"
            ) from None
        yield


def publish_files(files: list[tuple[Path, Path]]) -> None:
    """Rename files `(written, final)` in order. The manifest must be last: it marks completion."""
    for written, _ in files:
        flush_to_disk(written)
    for written, final in files:
        written.replace(final)
    for folder in {final.parent for _, final in files}:
        flush_to_disk(folder)


def publish_folder(written: Path, final: Path) -> None:
    """Rename or upload a folder of complete files to its final name, and point `latest` to it."""
    if is_object_storage(final):
        for file in sorted(written.iterdir(), key=lambda file: file.name == MANIFEST):
            storage, key = _storage(final / file.name)
            storage.put_file(str(file), key)
        (final.parent / LATEST).write_text(final.name, encoding="utf-8")
        return
    for file in written.iterdir():
        flush_to_disk(file)
    flush_to_disk(written)
    written.rename(final)
    flush_to_disk(final.parent)
    link = final.parent / f".{LATEST}.{secrets.token_hex(6)}.tmp"
    link.symlink_to(final.name)
    link.replace(final.parent / LATEST)
    flush_to_disk(final.parent)


def version_name(folder: Path, name: str, moment: datetime) -> str:
    """Return the name of a new version: prefix, UTC time, and a number if the newest is not older."""
    stamp, number = moment.astimezone(UTC).strftime(_TIME_FORMAT), 1
    for newest, last, _ in _find_versions(folder, name)[-1:]:
        if stamp <= newest:
            stamp, number = newest, last + 1
    return f"{name}-{stamp}" + (f"-{number}" if number > 1 else "")


def list_versions(folder: Path, name: str) -> list[Path]:
    """Return the complete versions with the prefix `name` in a folder, oldest first."""
    return [path for *_, path in _find_versions(folder, name)]


def _find_versions(folder: Path, name: str, *, complete: bool = True) -> list[tuple[str, int, Path]]:
    """Return (UTC time, number among equal times, path) of the versions, oldest first."""
    pattern = re.compile(re.escape(name) + r"-(\d{8}T\d{6}Z)(?:-(\d+))?\Z")
    if is_object_storage(folder):
        # One request lists up to a thousand objects, so list the whole folder instead of each version.
        storage, prefix = _storage(folder)
        objects = (key.removeprefix(prefix).strip("/").split("/") for key in storage.find(prefix))
        paths = {folder / parts[0] for parts in objects if len(parts) > 1 and (not complete or parts[1:] == [MANIFEST])}
    else:
        entries = folder.iterdir() if folder.is_dir() else ()
        paths = {path for path in entries if path.is_dir() and not path.is_symlink()}
    matches = ((path, match) for path in paths if (match := pattern.match(path.name)))
    return sorted((match.group(1), int(match.group(2) or 1), path) for path, match in matches)


def latest_version(folder: Path) -> str | None:
    """Return the name of the version to which `latest` points, or None."""
    if is_object_storage(folder):
        with suppress(FileNotFoundError):
            return (folder / LATEST).read_text(encoding="utf-8").strip()
        return None
    with suppress(OSError):
        return os.path.basename(os.readlink(folder / LATEST))
    return None


def find_expired(versions: Versions, now: datetime, added: int = 0) -> list[Path]:
    """Return the versions except `latest` that expire after `added` more are written, newest first."""
    expired = []
    latest = None if added else latest_version(versions.folder)
    for age, path in enumerate(reversed(list_versions(versions.folder, versions.name)), added):
        old = versions.max_age is not None and now - _written_at(versions.name, path) > versions.max_age
        if path.name != latest and ((versions.keep is not None and age >= versions.keep) or old):
            expired.append(path)
    return expired


def _written_at(name: str, version: Path) -> datetime:
    return datetime.strptime(version.name[len(name) + 1 :].split("-")[0], _TIME_FORMAT).replace(tzinfo=UTC)


def prune_versions(versions: Versions, now: datetime) -> list[Path]:
    """Delete and return the expired versions. Readers never see a partly deleted version."""
    folder, name = versions.folder, versions.name
    if is_object_storage(folder):
        complete, expired = set(list_versions(folder, name)), find_expired(versions, now)
        uploaded = [path for *_, path in _find_versions(folder, name, complete=False) if path not in complete]
        for path in expired:
            (path / MANIFEST).unlink()
        for path in (*expired, *(path for path in uploaded if now - _written_at(name, path) > _MAX_UPLOAD_TIME)):
            storage, key = _storage(path)
            storage.rm(key, recursive=True)
        return expired
    for link in folder.glob(f".{LATEST}.*.tmp"):
        if link.is_symlink():
            link.unlink(missing_ok=True)
    expired = find_expired(versions, now)
    for path in expired:
        hidden = folder / f".{name}.{secrets.token_hex(6)}.tmp"
        path.rename(hidden)
        shutil.rmtree(hidden, ignore_errors=True)
    return expired
