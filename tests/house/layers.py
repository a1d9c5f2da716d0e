"""Import rules between folders, read from `layers.toml`.

A folder may import the folders that its row names, if they are listed above it: the file begins with the bottom layer.
A module in a part's root has a row of its own.
"""

import tomllib
from pathlib import Path

from tests.house.sources import ROOT

LAYERS = Path(__file__).with_name("layers.toml").read_text(encoding="utf-8")


def rows(layers: str) -> dict[str, tuple[str, ...]]:
    """Return the rows in order: each folder and the names that it may import. Fails on other keys."""
    found = {}
    for folder, row in tomllib.loads(layers).items():
        assert row.keys() == {"holds", "imports"}, f"{folder}: expected the keys holds and imports"
        found[folder] = tuple(row["imports"])
    return found


def importable(declared: dict[str, tuple[str, ...]]) -> dict[str, set[str]]:
    """Return the folders that each folder may import: those named by its row and listed above it."""
    above: list[str] = []
    found = {}
    for folder, names in declared.items():
        found[folder] = {other for other in above for name in names if f"{other}/".startswith(f"{name}/")}
        above.append(folder)
    return found


def find_row(path: Path) -> str:
    """Return the row of a module: its folder, or the module itself if it is in the root of its part."""
    place = path.relative_to(ROOT)
    if len(place.parts) == 2:
        return str(place)
    return str(place.parent)
