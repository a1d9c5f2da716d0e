"""Imports follow the layers and have no cycles, and documents name existing files, classes and functions."""

import ast
import re
from pathlib import Path

from tests.house.layers import LAYERS, find_row, importable, rows
from tests.house.sources import ROOT, cycles, dotted_name, imported_modules, imports, modules, relative_names, tree


def layered_modules() -> list[Path]:
    """Return the modules that belong to a layer: all except the empty `__init__` of each part."""
    return [path for path in modules() if path.name != "__init__.py" or path.parent.parent != ROOT]


DOCUMENT = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
GUIDE = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def test_every_folder_has_a_row_and_every_row_has_modules() -> None:
    existing = {find_row(path) for path in layered_modules()}
    declared = set(rows(LAYERS))
    assert not existing - declared, "add a row to layers.toml for this folder"
    assert not declared - existing, "this folder has no modules: delete its row from layers.toml"


def test_every_row_names_only_folders_listed_above_it() -> None:
    declared = rows(LAYERS)
    for folder, names in declared.items():
        importable_rows = importable(declared)[folder]
        for name in names:
            assert any(f"{other}/".startswith(f"{name}/") for other in importable_rows), (
                f"{folder}: {name} is not above it"
            )


def test_imports_follow_the_layers() -> None:
    importable_rows = importable(rows(LAYERS))
    forbidden = [
        f"{path.relative_to(ROOT)} imports {other.relative_to(ROOT)}"
        for path in layered_modules()
        for other in imported_modules(path)
        if other.parent.parent != ROOT or other.name != "__init__.py"
        if find_row(path) != find_row(other) and find_row(other) not in importable_rows[find_row(path)]
    ]
    assert not forbidden, "\n".join(["layers.toml does not allow:", *forbidden])


def test_imports_between_folders_have_no_cycle() -> None:
    edges: dict[str, set[str]] = {}
    for path in layered_modules():
        edges.setdefault(find_row(path), set()).update(find_row(other) for other in imported_modules(path))
    import_cycles = cycles({row: others - {row} for row, others in edges.items()})
    assert not import_cycles


def test_files_named_in_the_architecture_document_and_contributor_guide_exist() -> None:
    pages = DOCUMENT + GUIDE
    named_files = set(re.findall(r"`((?:samplers|storage|daemon|tools|migrations|tests|docs|package)/[\w/.]*)`", pages))
    assert len(named_files) > 50
    assert not [name for name in sorted(named_files) if not (ROOT / name).exists()]


def test_the_architecture_diagram_shows_exactly_the_existing_folders() -> None:
    [diagram] = re.findall(r"```text\n(.*?)```", DOCUMENT, re.DOTALL)
    shown: dict[str, set[str]] = {}
    # A row begins with the name of the part, or with spaces if it continues the part of the row above.
    for part, folders in re.findall(r"^(?:(\w+)/)? {3,}((?:\w+ {0,2})+)", diagram, re.MULTILINE):
        if part or shown:
            shown.setdefault(part or list(shown)[-1], set()).update(folders.split())
    assert list(shown) == ["tools", "daemon", "storage", "samplers"]
    for part, folders in shown.items():
        assert folders == {path.parent.name for path in (ROOT / part).glob("*/__init__.py")}


def test_classes_and_functions_named_in_the_architecture_document_exist() -> None:
    mentions = re.findall(r"`([\w/]+\.py)`((?:[:,] `[\w.]+`)*)", DOCUMENT)
    assert len(mentions) > 12
    for file, names in mentions:
        module = tree(ROOT / file)
        definitions = {node.name: node for node in module.body if isinstance(node, ast.ClassDef | ast.FunctionDef)}
        for first, _, method in (name.partition(".") for name in re.findall(r"`([\w.]+)`", names)):
            assert first in definitions, f"{file} has no {first}"
            methods = {node.name for node in definitions[first].body if isinstance(node, ast.FunctionDef)}
            assert not method or method in methods, f"{file}: {first} has no {method}"


def test_names_in_modules_named_in_the_contributor_guide_exist() -> None:
    mentions = re.findall(r"`(\w+)` (?:in|of) `([\w/]+\.py)`", GUIDE)
    mentions += re.findall(r"`(\w+)` \(`([\w/]+\.py)`\)", GUIDE)
    assert len(mentions) >= 5
    for name, file in mentions:
        definition = rf"^(?:(?:def|class) {name}\b|{name}\b.* = )"
        assert re.search(definition, (ROOT / file).read_text(encoding="utf-8"), re.MULTILINE), f"{file} has no {name}"


def test_modules_have_no_import_cycle() -> None:
    edges = {dotted_name(path): {dotted_name(other) for other in imported_modules(path)} for path in modules()}
    assert not cycles(edges)


def test_all_forms_of_import_are_found() -> None:
    source = (
        "from typing import TYPE_CHECKING\n"
        "import hierogram.storage.records\n"
        "if TYPE_CHECKING:\n    from hierogram.storage.store import Store\n"
        "def f():\n    from hierogram.samplers import grammar\n    import numba.core\n"
    )
    assert set(imports(ast.parse(source))) == {
        ("typing.TYPE_CHECKING", False),
        ("hierogram.storage.records", False),
        ("hierogram.storage.store.Store", True),
        ("hierogram.samplers.grammar", False),
        ("numba.core", False),
    }


def test_imported_names_resolve_to_their_modules() -> None:
    path = ROOT / "storage" / "store.py"
    assert relative_names(imported_modules(path))[:2] == ["storage/aligner/aligner.py", "storage/checks/repair.py"]


def test_cycles_of_imports_are_found() -> None:
    assert cycles({"a": {"b"}, "b": {"c"}, "c": {"b", "d"}, "d": set(), "e": {"e"}}) == [["b", "c"], ["e"]]


def test_tests_import_helpers_not_other_tests() -> None:
    shared = [
        f"{path.relative_to(ROOT)} imports {name}"
        for path in sorted((ROOT / "tests").rglob("*.py"))
        # Parse only the few test files with `test_` among their imports, because parsing all of them takes seconds.
        if re.search(r"^ *(?:from|import) tests\b[^(\n]*(?:\([^)]*)?\btest_", path.read_text("utf-8"), re.MULTILINE)
        for name, *_ in imports(tree(path))
        if name.startswith("tests.") and any(step.startswith("test_") for step in name.split("."))
    ]
    assert not shared, "\n".join(["move shared code from tests to a helper module:", *shared])


def test_a_row_allows_the_named_folders_above_it() -> None:
    layers = (
        '"a/x" = { holds = "one", imports = [] }\n'
        '"a/y" = { holds = "two", imports = ["a"] }\n'
        '"b.py" = { holds = "three", imports = ["a/y", "c"] }\n'
        '"c/z" = { holds = "four", imports = ["a", "b.py"] }\n'
    )
    assert importable(rows(layers)) == {"a/x": set(), "a/y": {"a/x"}, "b.py": {"a/y"}, "c/z": {"a/x", "a/y", "b.py"}}
