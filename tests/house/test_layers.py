"""Imports go down, folder by folder, and nowhere in a circle."""

import ast
from pathlib import Path

from tests.house.layers import MAY_IMPORT, ORDER, floor
from tests.house.sources import ROOT, circles, dotted, imported, imports, modules, named, part, tree

UPWARD = {
    ("storage/database", "storage/grammar"),
    ("storage/operations", "storage/grammar"),
    ("storage/schema", "storage/database"),
    ("daemon/learning", "daemon/alignment"),
}
"""Imports between folders that still go up. This list only ever becomes shorter."""

CIRCLES = {
    "hierogram.storage.database.transactions",
    "hierogram.storage.grammar.key_runs",
}
"""Modules that are still part of a circle, or packages all of whose modules are. Likewise."""


def placed() -> list[Path]:
    """Modules with something in them: an empty `__init__` of a part's root has no place in the order."""
    return [path for path in modules() if path.name != "__init__.py" or path.parent.parent != ROOT]


def test_every_folder_has_its_place() -> None:
    found = {floor(path) for path in placed()}
    assert not found - set(ORDER), "say in tests/house/layers.py on what this folder stands"
    assert len(ORDER) == len(set(ORDER))


def test_imports_go_down() -> None:
    places = {name: place for place, name in enumerate(ORDER)}
    upward = [
        f"{path.relative_to(ROOT)} imports {other.relative_to(ROOT)}"
        for path in placed()
        for other in imported(path)
        if floor(path) != floor(other)
        and (floor(path), floor(other)) not in UPWARD
        and places[floor(other)] > places[floor(path)]
    ]
    assert not upward, "\n".join(["imports that go up (tests/house/layers.py has the order):", *upward])


def test_parts_import_what_they_may() -> None:
    wrong = [
        f"{path.relative_to(ROOT)} imports {other.relative_to(ROOT)}"
        for path in modules()
        for other in imported(path)
        if not any(str(other.relative_to(ROOT)).startswith(f"{allowed}/") for allowed in MAY_IMPORT[part(path)])
    ]
    assert not wrong, "\n".join(wrong)


def test_no_modules_import_each_other() -> None:
    edges = {dotted(path): {dotted(other) for other in imported(path)} for path in modules()}
    found = [
        circle
        for circle in circles(edges)
        if not all(name in CIRCLES or name.rpartition(".")[0] in CIRCLES for name in circle)
    ]
    assert not found, f"modules that import each other: {found}"


def test_the_scan_sees_every_import() -> None:
    source = (
        "from typing import TYPE_CHECKING\n"
        "import hierogram.storage.records\n"
        "if TYPE_CHECKING:\n    from hierogram.storage.store import Store\n"
        "def f():\n    from hierogram.samplers import grammar\n    import numba.core\n"
    )
    found = dict(imports(ast.parse(source)))
    assert found == {
        "typing.TYPE_CHECKING": False,
        "hierogram.storage.records": False,
        "hierogram.storage.store.Store": True,
        "hierogram.samplers.grammar": False,
        "numba.core": False,
    }


def test_a_name_leads_to_its_module() -> None:
    path = ROOT / "storage" / "store.py"
    assert named(imported(path))[:2] == ["storage/aligner/aligner.py", "storage/database/connection.py"]


def test_circles_are_found() -> None:
    assert circles({"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set(), "e": {"e"}}) == [["b", "c"], ["e"]]


def test_tests_share_helpers_not_tests() -> None:
    shared = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in sorted((ROOT / "tests").rglob("*.py"))
        for name, _ in imports(tree(path))
        if name.startswith("tests.") and any(step.startswith("test_") for step in name.split("."))
    ]
    assert not shared, "\n".join(["what tests share belongs to a module of helpers:", *shared])
