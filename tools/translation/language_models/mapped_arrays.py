"""Arrays in one file that is mapped into memory, so that a large file opens as fast as a small one.

A file is a line with its kind, the length and check sum of a header (two uint32), a JSON header, and the arrays,
little-endian, at multiples of 64 bytes. The header has their dtypes, shapes, offsets and check sums.
"""

import json
import math
import mmap
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hierogram.daemon.exceptions import ExportError, InputError
from hierogram.daemon.files import atomic_write

_ALIGNMENT_BYTES = 64
_SIZES = np.dtype("<u4")
_MAX_HEADER = 1 << 24


def first_line(kind: str, version: int) -> bytes:
    """Return the first line of files of a kind and version."""
    return f"hierogram {kind} {version}\n".encode()


def has_kind(path: str, kind: str) -> bool:
    """Check if a file is of a kind, of any version; False if the file cannot be read."""
    start = first_line(kind, 0).rpartition(b" ")[0]
    try:
        with open(path, "rb") as file:
            return file.read(len(start)) == start
    except OSError:
        return False


def write_arrays(
    path: Path, kind: str, version: int, values: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
) -> None:
    """Write a file, which appears whole or not at all. Raises `ExportError`."""
    places, at = [], 0
    for name, array in arrays.items():
        assert array.flags.c_contiguous
        data = array.view(np.uint8).reshape(-1) if array.size else np.zeros(0, np.uint8)
        dtype = array.dtype
        fields = [[field, dtype[field].newbyteorder("<").str] for field in dtype.names or ()]
        places.append([name, fields or dtype.newbyteorder("<").str, list(array.shape), at, zlib.crc32(data.data)])
        at += -(-array.nbytes // _ALIGNMENT_BYTES) * _ALIGNMENT_BYTES
    header = json.dumps({"values": dict(values), "arrays": places}).encode()
    start = first_line(kind, version) + np.array([len(header), zlib.crc32(header)], _SIZES).tobytes() + header
    try:
        with atomic_write(path.absolute()) as file:
            file.write(start + _padding(len(start)))
            for array in arrays.values():
                file.write(array.data if array.size else b"")
                file.write(_padding(array.nbytes))
    except OSError as error:
        raise ExportError(f"{path}: cannot be written: {error.strerror or error}") from error


def read_arrays(path: str, kind: str, version: int) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
    """Return the values and (copy-on-write) arrays of a file. Raises `InputError`."""
    line = first_line(kind, version)
    try:
        with open(path, "rb") as file:
            if file.read(len(line)) != line:
                raise InputError(f"{path}: this version of hierogram cannot read this {kind}: create it again")
            sizes = file.read(2 * _SIZES.itemsize)
            length, checked = np.frombuffer(sizes, _SIZES).tolist() if len(sizes) == 8 else (0, 0)
            header = file.read(min(length, _MAX_HEADER))
            if zlib.crc32(header) != checked or not header:
                raise _damaged(path)
            # A private mapping, because kernels are compiled for writable arrays.
            content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    except OSError as error:
        raise InputError(f"{path}: cannot be opened: {error.strerror or error}") from error
    start = len(line + sizes + header)
    start += len(_padding(start))
    found = json.loads(header)
    arrays: dict[str, NDArray[Any]] = {}
    for name, description, shape, offset, checked in found["arrays"]:
        fields = description if isinstance(description, str) else list(map(tuple, description))
        kind_of, items, at = np.dtype(fields, align=True), math.prod(shape), start + offset
        end = at + items * kind_of.itemsize
        with memoryview(content) as view:
            if end > len(content) or zlib.crc32(view[at:end]) != checked:
                raise _damaged(path)
        arrays[name] = np.frombuffer(content, kind_of, items, at).reshape(shape)
    return found["values"], arrays


def _damaged(path: str) -> InputError:
    return InputError(f"{path}: damaged or incomplete: create it again")


def _padding(size: int) -> bytes:
    return b"\0" * (-size % _ALIGNMENT_BYTES)
