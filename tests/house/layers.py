"""Which folder stands on which: the table of docs/architecture.md, as tests hold it.

A folder may import what its row names, as far as that stands above it. A module that lies in a part's root stands for
itself: exceptions and records are at the bottom, the facade and the command line at the top.
"""

import re
from pathlib import Path

from tests.house.sources import ROOT

TABLE = re.compile(r"^\| `([\w/.]+)` \| (.+?) \| (nothing|`[^|]*`) \|$", re.MULTILINE)


def rows(document: str) -> dict[str, tuple[str, ...]]:
    """The table's rows in their order: a folder, and the names that it may import."""
    section = document.split("## Folders")[1].split("\n## ")[0]
    return {folder: tuple(re.findall(r"`([^`]+)`", names)) for folder, _, names in TABLE.findall(section)}


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
