"""No module has a forbidden import, and help, ingest and export load no compiler."""

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.house.sources import PARTS, ROOT, imports, modules, part, tree
from tests.storage.building import commit, delta

from hierogram.storage.store import open_store

FORBIDDEN_IN_SAMPLERS = {"sqlalchemy", "sqlite3", "psycopg", "logging", "time", "datetime", "pathlib", "io"}


def forbidden_imports(path: Path) -> Iterator[str]:
    """Yield forbidden imports of a module: packages its part must not use, or our packages under the wrong name."""
    for name, *_ in imports(tree(path)):
        top = name.partition(".")[0]
        if top in PARTS:
            yield f"imports {name}: import hierogram.{name} instead"
        # `compiled` wraps numba and is not a sampler: it keeps compiled code in a folder.
        if part(path) == "samplers" and path.parent.name != "compiled" and top in FORBIDDEN_IN_SAMPLERS:
            yield f"samplers must not import {name}"
        if top == "numba" and path.parent.name != "compiled":
            yield "only samplers/compiled imports numba"


def test_no_module_has_a_forbidden_import() -> None:
    assert not [f"{path.relative_to(ROOT)}: {fault}" for path in modules() for fault in forbidden_imports(path)]


def loaded_by(*commands: list[str]) -> set[str]:
    """Return the top-level packages that a new process loads to run the commands, which must succeed."""
    script = (
        "import sys\n"
        "from hierogram.daemon.cli.main import main\n"
        f"for arguments in {commands!r}:\n"
        "    sys.argv = ['hierogram', *arguments]\n"
        "    try:\n        main()\n    except SystemExit as ended:\n        assert not ended.code, ended.code\n"
        "print('loaded:', *{name.split('.')[0] for name in sys.modules})\n"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    return set(ran.stdout.splitlines()[-1].removeprefix("loaded: ").split())


def test_help_loads_no_compiler_or_database() -> None:
    loaded = loaded_by(["--help"], ["learn", "--help"], ["demo", "--help"])
    assert not loaded & {"numba", "numpy", "sqlalchemy", "alembic", "zstandard", "psycopg"}


def test_ingest_and_export_load_no_compiler(tmp_path: Path) -> None:
    corpus, learned = tmp_path / "corpus", tmp_path / "learned.db"
    corpus.write_text("a ||| b ||| 0-0\n")
    with open_store(str(learned), create=True) as opened:
        commit(opened, [], [delta("a", "b", 3)])
    assert "numba" not in loaded_by(
        ["--store", str(tmp_path / "new.db"), "ingest", str(corpus)],
        ["--store", str(learned), "export", "-o", str(tmp_path / "g.gz")],
    )
