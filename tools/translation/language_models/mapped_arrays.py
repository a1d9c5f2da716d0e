"""Arrays in one file that is mapped into memory, so that it need not be parsed or copied.

A file consists of a line with its kind and version, the length and checksum of the header (two uint32), the header in
JSON, and the arrays, little-endian, at multiples of 64 bytes. The header contains the dtypes, shapes, offsets and
checksums of the arrays.
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
    """Check if a file can be read and is of a kind, in any version."""
    start = first_line(kind, 0).rpartition(b" ")[0]
    try:
        with open(path, "rb") as file:
            return file.read(len(start)) == start
    except OSError:
        return False


def write_arrays(
    path: Path, kind: str, version: int, values: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]
) -> None:
    """Write values and arrays to a file, atomically. Raises `ExportError`."""
    entries, offset = [], 0
    for name, array in arrays.items():
        assert array.flags.c_contiguous
        data = array.view(np.uint8).reshape(-1) if array.size else np.zeros(0, np.uint8)
        dtype = array.dtype
        fields = [[field, dtype[field].newbyteorder("<").str] for field in dtype.names or ()]
        entries.append([name, fields or dtype.newbyteorder("<").str, list(array.shape), offset, zlib.crc32(data.data)])
        offset += -(-array.nbytes // _ALIGNMENT_BYTES) * _ALIGNMENT_BYTES
    header = json.dumps({"values": dict(values), "arrays": entries}).encode()
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
    """Return the values and arrays of a file. The arrays are mapped copy-on-write. Raises `InputError`."""
    line = first_line(kind, version)
    try:
        with open(path, "rb") as file:
            if file.read(len(line)) != line:
                raise InputError(f"{path}: this version of hierogram cannot read this {kind}: create the file again")
            sizes = file.read(2 * _SIZES.itemsize)
            length, checksum = np.frombuffer(sizes, _SIZES).tolist() if len(sizes) == 8 else (0, 0)
            header = file.read(min(length, _MAX_HEADER))
            if zlib.crc32(header) != checksum or not header:
                raise _damaged(path)
            # Map copy-on-write, because kernels are compiled for writable arrays.
            content = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_COPY)
    except OSError as error:
        raise InputError(f"{path}: cannot be opened: {error.strerror or error}") from error
    start = len(line + sizes + header)
    start += len(_padding(start))
    parsed_header = json.loads(header)
    arrays: dict[str, NDArray[Any]] = {}
    for name, description, shape, offset, checksum in parsed_header["arrays"]:
        fields = description if isinstance(description, str) else list(map(tuple, description))
        dtype, items, at = np.dtype(fields, align=True), math.prod(shape), start + offset
        end = at + items * dtype.itemsize
        with memoryview(content) as view:
            if end > len(content) or zlib.crc32(view[at:end]) != checksum:
                raise _damaged(path)
        arrays[name] = np.frombuffer(content, dtype, items, at).reshape(shape)
    return parsed_header["values"], arrays


def _damaged(path: str) -> InputError:
    return InputError(f"{path}: damaged or incomplete: create the file again")


def _padding(size: int) -> bytes:
    return b"\0" * (-size % _ALIGNMENT_BYTES)
