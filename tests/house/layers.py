"""Which folder stands on which: the order that imports follow, from the ground up.

A folder may import what stands before it in `ORDER`, as far as `MAY_IMPORT` lets its part. A module that lies in a
part's root stands for itself: exceptions and records are at the bottom, the facade and the command line at the top.
"""

from pathlib import Path

from tests.house.sources import ROOT

ORDER = (
    "samplers/exceptions.py",
    "samplers/kernel.py",
    "samplers/compiled",
    "samplers/grammar",
    "samplers/forests",
    "samplers/counts",
    "samplers/synchronous",
    "samplers/trees",
    "samplers/alignment",
    "samplers/alignment/models",
    "samplers/charts",
    "samplers/extraction",
    "storage/exceptions.py",
    "storage/options.py",
    "storage/records.py",
    "storage/schema",
    "storage/database",
    "storage/operations",
    "storage/pairs",
    "storage/grammar",
    "storage/aligner",
    "storage/exports",
    "storage/store.py",
    "migrations/env.py",
    "migrations/versions",
    "daemon/exceptions.py",
    "daemon/plain_options.py",
    "daemon/garbage_collection.py",
    "daemon/files.py",
    "daemon/terminal.py",
    "daemon/progress.py",
    "daemon/prefetch.py",
    "daemon/corpora",
    "daemon/learning/kinds",
    "daemon/learning",
    "daemon/alignment",
    "daemon/treebanks",
    "daemon/grammar",
    "daemon/exports/tables",
    "daemon/exports/formats",
    "daemon/exports",
    "daemon/demo",
    "daemon/configuration.py",
    "daemon/serving",
    "daemon/web/api",
    "daemon/web",
    "daemon/commands",
    "daemon/main.py",
    "tools/comparison",
    "tools/measures",
    "tools",
)
MAY_IMPORT = {
    "samplers": ("samplers",),
    "storage": ("storage", "samplers/grammar"),
    "migrations": ("migrations", "storage"),
    "daemon": ("daemon", "storage", "samplers"),
    "tools": ("tools", "daemon", "migrations", "storage", "samplers"),
}
"""The parts, or folders of other parts, whose modules each part may import."""


def floor(path: Path) -> str:
    """Where a module stands: its folder, or itself if it lies in the root of its part (but for the tools')."""
    place = path.relative_to(ROOT)
    if len(place.parts) == 2 and place.parts[0] != "tools":
        return str(place)
    return str(place.parent)
