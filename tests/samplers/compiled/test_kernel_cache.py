"""The kernel cache: concurrent compilation keeps kernels apart, and cached kernels load without compiling."""

import os
import re
import shutil
import signal
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from hierogram.samplers.compiled import internals
from hierogram.samplers.compiled.jit import (
    CacheFile,
    UnsafeFolderError,
    cache_folder,
    check_folder,
    defer_interrupts,
    is_cached,
    make_folder,
    njit,
    source_digest,
)


def test_concurrent_compilation_does_not_mix_up_signatures(tmp_path: Path) -> None:
    first, second, later = (CacheFile(tmp_path, "kernel", "stamp") for _ in range(3))
    # Both processes read the index before either writes it, and the second process finishes first.
    first._load_index = second._load_index = dict
    save = first._save_data

    def save_late(name: str, data: object) -> None:
        second.save("int64", "of int64")
        save(name, data)

    first._save_data = save_late
    first.save("float64", "of float64")
    assert later.load("int64") == "of int64"
    assert later.load("float64") is None
    later.save("float64", "of float64")
    assert (later.load("float64"), later.load("int64")) == ("of float64", "of int64")


KERNELS = """
import sys
import numpy as np
from hierogram.samplers.forests.fragments import cumulate_hashes
from hierogram.samplers.counts.table import empty_table, with_room

words = cumulate_hashes(np.arange(3, dtype=np.uint64), np.arange(5, dtype=np.uint64), np.uint64(1))
print(*words.source, *words.target, "numba.np.arrayobj" in sys.modules)
if "more" in sys.argv:
    table = empty_table(3)
    table.rows[7] = 7, 7, 2, 1
    table.totals[1] = 1
    grown = with_room(table, len(table.rows))
    print(len(grown.rows) // len(table.rows), *grown.rows[7], "numba.np.arrayobj" in sys.modules)
"""


def run(cache: Path, *arguments: str) -> list[str]:
    environment = {**os.environ, "HIEROGRAM_CACHE": str(cache)}
    command = [sys.executable, "-c", KERNELS, *arguments]
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.splitlines()


@pytest.fixture(scope="module")
def compiled_once(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """Cache folder with the first kernel, and the output line of the process that compiled it."""
    folder = tmp_path_factory.mktemp("cache")
    (line,) = run(folder)
    return folder, line


@pytest.fixture
def cache(compiled_once: tuple[Path, str], tmp_path: Path) -> Path:
    """Copy of the cache folder with the first kernel."""
    return shutil.copytree(compiled_once[0], tmp_path / "cache")


@pytest.mark.slow
def test_a_cached_kernel_needs_no_compiler_and_new_kernels_are_still_compiled(
    compiled_once: tuple[Path, str], cache: Path
) -> None:
    compiled = compiled_once[1]
    (kept,) = run(cache)
    kept_again, compiled_after = run(cache, "more")
    assert compiled.endswith(" True")
    assert kept == kept_again == compiled.replace("True", "False")
    assert compiled_after == "4 7 7 2 1 True"


def test_an_edit_in_a_subpackage_changes_the_digest(tmp_path: Path) -> None:
    callee = tmp_path / "forests" / "deeper" / "walk.py"
    callee.parent.mkdir(parents=True)
    callee.write_text("STEP = 1\n")
    before = source_digest(tmp_path)
    callee.write_text("STEP = 2\n")
    assert source_digest(tmp_path) != before
    callee.write_text("STEP = 1\n")
    assert source_digest(tmp_path) == before


CALLER = """
from hierogram.samplers.compiled.jit import njit
from callee import step

@njit
def twice():
    return 2 * step()
"""


@pytest.mark.slow
def test_a_kernel_is_recompiled_after_an_edit_in_its_folder(tmp_path: Path) -> None:
    sources = tmp_path / "sources"
    sources.mkdir()
    (sources / "caller.py").write_text(CALLER)
    environment = {**os.environ, "HIEROGRAM_CACHE": str(tmp_path / "cache"), "PYTHONDONTWRITEBYTECODE": "1"}
    environment["PYTHONPATH"] = os.pathsep.join([str(sources), os.environ.get("PYTHONPATH", "")])
    for value in (3, 4):
        (sources / "callee.py").write_text(
            f"from hierogram.samplers.compiled.jit import njit\n@njit\ndef step(): return {value}\n"
        )
        command = [sys.executable, "-c", "from caller import twice; print(twice())"]
        ran = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
        assert ran.stdout == f"{2 * value}\n"


def folders(cache: Path) -> list[Path]:
    return sorted(path for path in cache.rglob("*") if path.is_dir())


def test_cache_folders_are_private(compiled_once: tuple[Path, str]) -> None:
    modes = {path.name: path.stat().st_mode & 0o777 for path in folders(compiled_once[0])}
    assert {"hierogram", "kernels", "forests.fragments"} <= modes.keys()
    assert set(modes.values()) == {0o700}


@pytest.mark.slow
@pytest.mark.parametrize("level", range(4))
def test_a_folder_that_others_can_write_to_is_not_read(
    compiled_once: tuple[Path, str], cache: Path, level: int
) -> None:
    opened = next(path for path in folders(cache) if path.name == "forests.fragments")
    opened = [opened, *opened.parents][level]
    opened.chmod(0o777)
    # The cache must not read files in such a folder, because unpickling executes their content.
    for kept in cache.rglob("*.nbi"):
        kept.write_bytes(b"not an index")
    environment = {**os.environ, "HIEROGRAM_CACHE": str(cache)}
    ran = subprocess.run([sys.executable, "-c", KERNELS], env=environment, capture_output=True, text=True, check=True)
    assert ran.stdout.splitlines() == [compiled_once[1]]
    assert (
        ran.stderr
        == f"compiled samplers cannot be cached: other users can write to {opened}: run `chmod go-w {opened}`\n"
    )
    assert all(kept.read_bytes() == b"not an index" for kept in cache.rglob("*.nbi"))


def test_a_folder_of_another_user_is_not_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIEROGRAM_CACHE", str(tmp_path))
    make_folder(cache_folder())
    check_folder(cache_folder())
    monkeypatch.setattr(os, "getuid", lambda: cache_folder().stat().st_uid + 1)
    monkeypatch.setattr("hierogram.samplers.compiled.jit._ROOT", -1)
    with pytest.raises(UnsafeFolderError, match="hierogram belongs to another user"):
        check_folder(cache_folder())


def test_the_numba_requirement_matches_the_tested_versions() -> None:
    tested = re.search(r"Tested with numba (\S+) and (\d+)\.(\d+)", internals.__doc__ or "")
    assert tested
    oldest, major, minor = tested.groups()
    project = tomllib.loads((Path(__file__).parents[3] / "pyproject.toml").read_text())
    assert f"numba>={oldest},<{major}.{int(minor) + 1}" in project["project"]["dependencies"]


def test_an_interrupt_takes_effect_after_the_outermost_compilation() -> None:
    handled: list[bool] = []

    def interrupt() -> None:
        with defer_interrupts():
            with defer_interrupts():
                signal.raise_signal(signal.SIGINT)
            handled.append(False)
        handled.append(True)

    with pytest.raises(KeyboardInterrupt):
        interrupt()
    assert handled == [False]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_handlers_run_while_a_kernel_is_compiled_and_may_replace_themselves() -> None:
    received: list[int] = []

    def replace_itself(number: int, _frame: object) -> None:
        received.append(number)
        signal.signal(number, signal.SIG_IGN)

    before = signal.signal(signal.SIGTERM, replace_itself)
    try:
        with defer_interrupts():
            signal.raise_signal(signal.SIGTERM)
            assert received == [signal.SIGTERM]
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
    finally:
        signal.signal(signal.SIGTERM, before)


def test_an_interrupted_kernel_is_compiled_and_cached(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HIEROGRAM_CACHE", str(tmp_path))

    @njit
    def double(number: int) -> int:
        return 2 * number

    compiled: Any = double
    save = compiled._cache.save_overload

    def save_interrupted(*overload: Any) -> None:
        signal.raise_signal(signal.SIGTERM)
        save(*overload)

    compiled._cache.save_overload = save_interrupted
    before = signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        with pytest.raises(KeyboardInterrupt):
            double(3)
    finally:
        signal.signal(signal.SIGTERM, before)
    assert is_cached(double)
    assert double(3) == 6
