"""`import hierogram` is quick, and type checkers see all of its names."""

import ast
import subprocess
import sys
from pathlib import Path

import hierogram as hg

PACKAGE = Path(__file__).parents[3] / ".imports" / "hierogram" / "__init__.py"


def test_importing_the_package_is_quick_and_loads_no_compiler_and_no_database() -> None:
    script = (
        "import sys, time\nstarted = time.perf_counter()\nimport hierogram\nprint(time.perf_counter() - started)\n"
        "print(*{name.split('.')[0] for name in sys.modules})"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    seconds, loaded = ran.stdout.splitlines()
    assert not {"numba", "numpy", "sqlalchemy", "nanoarrow", "typer"} & set(loaded.split())
    # The import should take 0.15 s on an idle machine. Allow four times as long, because of other load.
    assert float(seconds) < 0.6


def test_every_name_exists_and_is_visible_to_type_checkers() -> None:
    [block] = [node for node in ast.parse(PACKAGE.read_text()).body if isinstance(node, ast.If)]
    seen = {
        (alias.asname or alias.name): f"{node.module}.{alias.name}"
        for node in block.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    assert seen == {name: f"{home}.{name}" for name, home in hg._MODULES.items()}
    assert len(seen) > 30
    for name in seen:
        assert callable(getattr(hg, name)), name
        assert name in dir(hg)
    assert not hasattr(hg, "no_such_name")


def test_version_is_the_version_of_the_package() -> None:
    from importlib.metadata import version

    assert hg.__version__ == version("hierogram")


def test_every_public_function_class_and_method_has_a_docstring() -> None:
    for name in hg.__dir__():
        thing = getattr(hg, name)
        if name.startswith("_") or getattr(thing, "__module__", "").partition(".")[0] != "hierogram":
            continue
        assert thing.__doc__, name
        for method, value in vars(thing).items() if isinstance(thing, type) else ():
            if callable(value) and not method.startswith("_"):
                assert value.__doc__, f"{name}.{method}"
