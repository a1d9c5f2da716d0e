"""Which folder stands on which, as `layers.toml` says and tests hold it.

A folder may import what its line names, as far as that stands above it. A module that lies in a part's root stands for
itself: exceptions and records are at the bottom, the facade and the command line at the top.

A line may also name what stands below it and is imported `lazily`: inside functions only.
"""

import tomllib
from pathlib import Path

from tests.house.sources import ROOT

LAYERS = Path(__file__).with_name("layers.toml").read_text(encoding="utf-8")


def rows(layers: str) -> dict[str, tuple[str, ...]]:
    """The lines in their order: a folder, and the names that it may import."""
    found = {}
    for folder, row in tomllib.loads(layers).items():
        assert row.keys() - {"lazily"} == {"holds", "imports"}, f"{folder}: say what it holds and what it imports"
        found[folder] = tuple(row["imports"])
    return found


def lazy(layers: str) -> dict[str, frozenset[str]]:
    """For each folder those below it that its functions import when they are called."""
    return {folder: frozenset(row.get("lazily", ())) for folder, row in tomllib.loads(layers).items()}


def allowed(declared: dict[str, tuple[str, ...]]) -> dict[str, set[str]]:
    """For each folder all folders that it may import: those above that it names, and what is inside of them."""
    above: list[str] = []
    found = {}
    for folder, names in declared.items():
        found[folder] = {other for other in above for name in names if f"{other}/".startswith(f"{name}/")}
        above.append(folder)
    return found


def floor(path: Path) -> str:
    """Where a module stands: its folder, or itself if it lies in the root of its part (but for the tools')."""
    place = path.relative_to(ROOT)
    if len(place.parts) == 2 and place.parts[0] != "tools":
        return str(place)
    return str(place.parent)
