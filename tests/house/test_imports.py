"""Imports point one way, and commands that only look need no compiler."""

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PARTS = {
    "samplers": set(),
    "storage": set(),
    "migrations": {"storage"},
    "daemon": {"storage", "samplers"},
    "tools": {"storage", "samplers", "daemon", "migrations"},
}
"""Which other parts each part may import."""

SAMPLERS_DO_WITHOUT = {"sqlalchemy", "sqlite3", "psycopg", "logging", "time", "datetime", "pathlib", "io"}


def imports_of(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: relative import"
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def modules() -> list[tuple[str, Path]]:
    return [(part, path) for part in PARTS for path in sorted((ROOT / part).rglob("*.py"))]


def test_the_scan_sees_every_part() -> None:
    assert {part for part, _ in modules()} == set(PARTS)


def name_of(value: object) -> str:
    return str(value.relative_to(ROOT)) if isinstance(value, Path) else str(value)


@pytest.mark.parametrize(("part", "path"), modules(), ids=name_of)
def test_imports_point_one_way(part: str, path: Path) -> None:
    allowed = PARTS[part] | {part}
    for name in imports_of(path):
        top, _, rest = name.partition(".")
        assert top not in PARTS, f"{path}: imports {name}: say hierogram.{name}"
        if top == "hierogram":
            assert rest.split(".")[0] in allowed, f"{path}: {part} must not import {name}"
        # The door to numba is no sampler: it keeps compiled code in a folder.
        if part == "samplers" and path.parent.name != "compiled":
            assert top not in SAMPLERS_DO_WITHOUT, f"{path}: samplers do without {name}"
        if top == "numba":
            assert path.parent.name == "compiled", f"{path}: only samplers/compiled imports numba"


def loaded_by(*arguments: str) -> set[str]:
    """Top-level packages that are loaded when the command has ended."""
    script = (
        "import sys\n"
        "from hierogram.daemon.main import main\n"
        f"sys.argv = {['hierogram', *arguments]!r}\n"
        "try:\n    main()\nexcept SystemExit as ended:\n    assert not ended.code, ended.code\n"
        "print('loaded:', *{name.split('.')[0] for name in sys.modules})\n"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(ran.stdout.splitlines()[-1].removeprefix("loaded: ").split())


def test_help_loads_next_to_nothing() -> None:
    for arguments in (["--help"], ["learn", "--help"], ["demo", "--help"]):
        assert not loaded_by(*arguments) & {"numba", "numpy", "sqlalchemy", "alembic", "zstandard", "psycopg"}


def test_looking_needs_no_compiler(tmp_path: Path) -> None:
    store = ["--store", str(tmp_path / "store.db")]
    corpus = tmp_path / "corpus"
    corpus.write_text("a ||| b ||| 0-0\n")
    assert "numba" not in loaded_by(*store, "ingest", str(corpus))
    assert not loaded_by(*store, "status") & {"numba", "numpy", "alembic"}
    assert not loaded_by(*store, "rules", "--containing", "a") & {"numba", "numpy", "alembic"}
    assert "numba" not in loaded_by(*store, "export", "-o", str(tmp_path / "g.zst"))


def test_the_scan_finds_a_forbidden_import(tmp_path: Path) -> None:
    path = tmp_path / "kernel.py"
    path.write_text("def f():\n    from hierogram.storage import store\n    import numba.core\n")
    assert list(imports_of(path)) == ["hierogram.storage.store", "numba.core"]
