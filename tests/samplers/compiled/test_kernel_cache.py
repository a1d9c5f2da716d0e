"""Kernels that several processes compile at once are kept apart, and one that is kept is there at once."""

import os
import subprocess
import sys
from pathlib import Path

from hierogram.samplers.compiled.jit import CacheFile, digest_of


def test_no_process_finds_another_s_kernel_under_its_own_signature(tmp_path: Path) -> None:
    first, second, later = (CacheFile(tmp_path, "kernel", "stamp") for _ in range(3))
    # Both have looked into the index before either wrote to it, and the second is quicker at the end.
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
from hierogram.samplers.forests.fragments import add_up
from hierogram.samplers.counts.table import empty_table, with_room

words = add_up(np.arange(3, dtype=np.uint64), np.arange(5, dtype=np.uint64), np.uint64(1))
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


def test_a_kept_kernel_needs_nothing_to_compile_with_and_others_are_compiled_after_it(tmp_path: Path) -> None:
    (compiled,) = run(tmp_path)
    (kept,) = run(tmp_path)
    kept_again, compiled_after = run(tmp_path, "more")
    assert compiled.endswith(" True")
    assert kept == kept_again == compiled.replace("True", "False")
    assert compiled_after == "4 7 7 2 1 True"


def test_an_edit_in_a_sub_package_changes_the_digest(tmp_path: Path) -> None:
    callee = tmp_path / "forests" / "deeper" / "walk.py"
    callee.parent.mkdir(parents=True)
    callee.write_text("STEP = 1\n")
    before = digest_of(tmp_path)
    callee.write_text("STEP = 2\n")
    assert digest_of(tmp_path) != before
    callee.write_text("STEP = 1\n")
    assert digest_of(tmp_path) == before
