"""Kernels that several processes compile at once are kept apart."""

from pathlib import Path

from hierogram.samplers.accelerate import CacheFile


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
