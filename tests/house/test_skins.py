"""Commands and HTTP import only values and errors from the samplers and the storage."""

import ast
from collections.abc import Iterator
from dataclasses import is_dataclass
from enum import Enum
from importlib import import_module
from types import FunctionType, ModuleType

from tests.house.sources import ROOT, imports, modules, tree

INTERFACES = ("daemon/cli", "daemon/web/api")
LOWER_PARTS = ("hierogram.storage.", "hierogram.samplers.")


def is_value(imported: object) -> bool:
    """Check if an imported object is a constant, a type of plain values, or an error."""
    if isinstance(imported, type):
        return is_dataclass(imported) or issubclass(imported, Enum | BaseException) or hasattr(imported, "_fields")
    return not isinstance(imported, FunctionType | ModuleType)


def services(syntax: ast.Module) -> Iterator[str]:
    """Yield the imports from the samplers and the storage that are not values."""
    for name, *_ in imports(syntax):
        module, _, last = name.rpartition(".")
        if name.startswith(LOWER_PARTS) and not is_value(
            getattr(import_module(module), last, None) or import_module(name)
        ):
            yield name


def test_commands_and_http_import_only_values_and_errors() -> None:
    interfaces = [path for path in modules() if str(path.relative_to(ROOT).parent) in INTERFACES]
    assert len(interfaces) > 12
    assert not [f"{path.relative_to(ROOT)}: {name}" for path in interfaces for name in services(tree(path))]


def test_imported_services_are_found() -> None:
    source = (
        "from hierogram.storage.store import Store, open_store\n"
        "from hierogram.storage.browsing import progress\n"
        "from hierogram.samplers.grammar.rules import Rule, render_side\n"
        "from hierogram.storage.records.settings import Settings\n"
        "from hierogram.storage.exceptions import StoreError\n"
        "from hierogram.samplers.grammar.known_links import Link\n"
    )
    assert [name.rpartition(".")[2] for name in services(ast.parse(source))] == [
        "Store", "open_store", "progress", "render_side",
    ]  # fmt: skip
