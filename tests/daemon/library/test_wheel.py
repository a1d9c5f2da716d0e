"""A wheel in an empty environment provides the whole library and command line."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.daemon.library import smoke

import hierogram as hg

ROOT = Path(__file__).parents[3]


@pytest.mark.slow
def test_the_smoke_test_passes_and_uses_every_name(tmp_path: Path) -> None:
    smoke.main(tmp_path)
    script = Path(smoke.__file__).read_text()
    used = set(re.findall(r"\bhg\.(\w+)", script))
    assert {name for name in hg._MODULES if name not in used} == {"GrammarStore", "Learning"}
    methods = {name for name in vars(hg.GrammarStore) if not name.startswith("_")} - {"close", "store"}
    assert not {name for name in methods if not re.search(rf"\bstore\.{name}\b", script)}


@pytest.mark.campaign
def test_a_wheel_works_in_a_fresh_environment(tmp_path: Path) -> None:
    def run(*arguments: str | Path) -> str:
        ran = subprocess.run([str(word) for word in arguments], cwd=tmp_path, capture_output=True, text=True)
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran.stdout

    run(sys.executable, "-m", "venv", "fresh")
    programs = tmp_path / "fresh" / "bin"
    run(programs / "pip", "wheel", "--no-deps", "-w", "dist", ROOT)
    [wheel] = (tmp_path / "dist").glob("*.whl")
    run(programs / "pip", "install", wheel)
    assert "everything works" in run(programs / "python", smoke.__file__, tmp_path)
    assert run(programs / "hierogram", "--version") == f"hierogram {hg.__version__}\n"
    assert "translation rules" in run(programs / "hierogram", "--help")
