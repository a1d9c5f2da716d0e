"""The manifest of an export: where it comes from, what was left out, and how to tell that it is whole."""

import json
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hierogram.daemon.exceptions import ExportError
from hierogram.daemon.exports.filters import FilterCount

MANIFEST_VERSION = 3
MANIFEST_SUFFIX = ".json"


@dataclass(frozen=True, slots=True)
class ExportedFile:
    """A file of an export; size and digest are those of what lies on the disk."""

    name: str
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Manifest:
    """What an export is.

    `file`, `bytes` and `sha256` are those of the rules' file, `others` the files beside it; `position` is the store
    position that it shows, `settings` are the store's, `options` what was asked for, presets spelled out; `filters`
    tell, in their order, how many rules there were before and after each. The squared Monte-Carlo error of a count is
    about `variance_a_use` times the count.
    """

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
    normalization: str
    filters: list[FilterCount]
    rules: int
    file: str
    bytes: int
    sha256: str
    created_at: str
    others: list[ExportedFile] = field(default_factory=list)
    variance_a_use: float | None = None

    def text(self) -> str:
        """The manifest as its file holds it."""
        return json.dumps(asdict(self), indent=2, ensure_ascii=False) + "\n"


def manifest_path(path: Path) -> Path:
    """Where the manifest of an exported file lies: beside it, under its name and `.json`."""
    return path.with_name(path.name + MANIFEST_SUFFIX)


def read_manifest(path: Path) -> dict[str, Any]:
    """A manifest as it was written; raises `ExportError` where the file is none."""
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise ExportError(f"{path}: cannot be read as a manifest: {error}") from error
    if not isinstance(found, dict) or "manifest_version" not in found:
        raise ExportError(f"{path}: is no manifest of an export")
    return found


def today() -> str:
    """The time in UTC, as manifests write it."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
