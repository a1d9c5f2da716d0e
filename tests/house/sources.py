"""The project's modules and their imports, for the tests of this folder."""

import ast
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PARTS = ("samplers", "storage", "migrations", "daemon", "tools")
"""The top-level folders: the parts of the package `hierogram`."""


class Import(NamedTuple):
    """One name that a module imports."""

    name: str
    """Full name, such as `hierogram.storage.store.Store` or `numpy`."""
    typing_only: bool
    """True if it is under `if TYPE_CHECKING:`."""


@cache
def modules() -> tuple[Path, ...]:
    return tuple(path for part in PARTS for path in sorted((ROOT / part).rglob("*.py")))


@cache
def tree(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"))


def part(path: Path) -> str:
    """Return the top-level folder of a module."""
    return path.relative_to(ROOT).parts[0]


def dotted_name(path: Path) -> str:
    """Return the dotted name of a module, such as `hierogram.storage.store`, or of the package of an `__init__`."""
    name = ".".join(("hierogram", *path.relative_to(ROOT).with_suffix("").parts))
    return name.removesuffix(".__init__")


def statements(block: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Yield the statements of a block and of all blocks inside it, without their expressions."""
    for statement in block:
        yield statement
        for name in ("body", "handlers", "orelse", "finalbody", "cases"):
            yield from statements(getattr(statement, name, ()))


def imports(syntax: ast.Module) -> Iterator[Import]:
    """Yield all imports of a module, also inside functions and for types only. Fails on a relative import."""
    nodes = list(statements(syntax.body))
    for_types = {
        inner
        for node in nodes
        if isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")
        for inner in statements(node.body)
    }
    for node in nodes:
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"line {node.lineno}: a relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        else:
            continue
        yield from (Import(name, node in for_types) for name in names)


@cache
def imported_modules(path: Path) -> frozenset[Path]:
    """Return the project's modules that a module imports, except itself.

    Names under `if TYPE_CHECKING:` are not imported at run time. Fails if no prefix of an
    imported name is a module.
    """
    imported: set[Path] = set()
    for name, typing_only in imports(tree(path)):
        if name.startswith("hierogram."):
            parts = name.split(".")[1:]
            # The project's packages define no names of their own, so the longest prefix that is a module is the one
            # imported.
            while not (module := find_module(parts)) and parts:
                parts.pop()
            assert module is not None, f"{path}: imports {name}, which does not exist"
            if not typing_only:
                imported.add(module)
    return frozenset(imported - {path})


def find_module(parts: list[str]) -> Path | None:
    """Return the file of a module or package, given the parts of its dotted name without `hierogram`, or None."""
    base = ROOT.joinpath(*parts)
    for path in (base.with_suffix(".py"), base / "__init__.py"):
        if path.is_file():
            return path
    return None


def cycles(edges: dict[str, set[str]]) -> list[list[str]]:
    """Return the groups of nodes that reach each other, including single nodes with an edge to themselves."""
    reachable = {node: find_reachable(node, edges) for node in edges}
    groups = {
        tuple(sorted(other for other in reachable[node] if node in reachable.get(other, ())))
        for node in edges
        if node in reachable[node]
    }
    return [list(group) for group in sorted(groups)]


def find_reachable(start: str, edges: dict[str, set[str]]) -> set[str]:
    """Return the nodes reachable from a node in one or more steps."""
    reachable: set[str] = set()
    pending: list[str] = [*edges.get(start, ())]
    while pending:
        node = pending.pop()
        if node not in reachable:
            reachable.add(node)
            pending += edges.get(node, ())
    return reachable


def relative_names(paths: Iterable[Path]) -> list[str]:
    """Return sorted paths relative to the repository root, for messages."""
    return sorted(str(path.relative_to(ROOT)) for path in paths)
