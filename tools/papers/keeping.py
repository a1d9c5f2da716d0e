"""What long runs have found so far, kept in files, so that the same command goes on where it was interrupted."""

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

from hierogram.daemon.alignment.files import write_lines
from hierogram.daemon.exceptions import UsageError

Value = TypeVar("Value")


class Kept:
    """Plain values by their names, in a JSON file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._values: dict[str, Any] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}

    def find(self, name: str, make: Callable[[], Value], made: Path) -> Value:
        """The value that an earlier run found, where the file that it `made` is still there; else `make` finds it."""
        if name not in self._values or not made.exists():
            self._values[name] = make()
            write_lines(self._path, [json.dumps(self._values, indent=2, ensure_ascii=False)])
        value: Value = self._values[name]
        return value


def check_settings(path: Path, settings: Mapping[str, Any]) -> None:
    """Keep what a folder's results were asked for with; raises `UsageError` where it was something else."""
    text = json.dumps(dict(settings), indent=2, ensure_ascii=False)
    if not path.exists():
        write_lines(path, [text])
        return
    before = json.loads(path.read_text(encoding="utf-8"))
    if before != (now := json.loads(text)):
        other = ", ".join(sorted(name for name in {*before, *now} if before.get(name) != now.get(name)))
        raise UsageError(f"{path.parent} holds results that were asked for with another {other}: name another folder")
