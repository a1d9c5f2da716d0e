"""Import rules between folders, read from `layers.toml`.

A folder may import the folders that its row names, if they are listed above it: the file begins with the bottom layer.
A module in a part's root has a row of its own.
"""

import tomllib
from pathlib import Path

from tests.house.sources import ROOT

LAYERS = Path(__file__).with_name("layers.toml").read_text(encoding="utf-8")


def rows(layers: str) -> dict[str, tuple[str, ...]]:
    """Return the allowed imports of each folder, in the order of the file. Fails on unknown keys."""
    imports_by_folder = {}
    for folder, row in tomllib.loads(layers).items():
        assert row.keys() == {"holds", "imports"}, f"{folder}: expected the keys holds and imports"
        imports_by_folder[folder] = tuple(row["imports"])
    return imports_by_folder


def importable(declared: dict[str, tuple[str, ...]]) -> dict[str, set[str]]:
    """Return the rows that each row may import: those inside the folders that it names, and listed above it.

    `declared` is from `rows`.
    """
    above: list[str] = []
    importable_rows = {}
    for folder, names in declared.items():
        importable_rows[folder] = {other for other in above for name in names if f"{other}/".startswith(f"{name}/")}
        above.append(folder)
    return importable_rows


def find_row(path: Path) -> str:
    """Return the row of a module: its folder, or the module itself if it is in the root of its part."""
    relative_path = path.relative_to(ROOT)
    return str(relative_path if len(relative_path.parts) == 2 else relative_path.parent)
