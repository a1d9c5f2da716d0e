"""Files that appear whole, on the disk, or not at all; and their names, which may be any bytes."""

import os
import secrets
import stat
import unicodedata
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from errno import EEXIST
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO

_UNSEEN = frozenset({"Cc", "Cs", "Zl", "Zp"})


def cache_folder() -> Path:
    """Return the folder of downloaded and derived files, `hierogram` in the user's cache folder or HIEROGRAM_CACHE."""
    base = os.environ.get("HIEROGRAM_CACHE") or os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(base) / "hierogram"


def readable(name: str) -> str:
    """Return a file's name, or a text with names, as logs, stores and JSON can hold it.

    Bytes that are not UTF-8 (which Python keeps as halves of surrogate pairs), control characters and line separators
    are escaped, as in `\\xff`.
    """
    if name.isprintable():
        return name
    letters = []
    for letter in name:
        if 0xDC80 <= ord(letter) <= 0xDCFF:
            letters.append(f"\\x{ord(letter) - 0xDC00:02x}")
        else:
            unseen = unicodedata.category(letter) in _UNSEEN
            letters.append(letter.encode("unicode_escape").decode() if unseen else letter)
    return "".join(letters)


def fitting(folder: Path, name: str, ending: str) -> str:
    """Return the name with the ending, shortened to what a file in the folder may be called.

    Where it is shortened, a digest of the whole name stands for what is missing. Raises `OSError`.
    """
    whole, most = os.fsencode(name), os.pathconf(folder, "PC_NAME_MAX")
    if len(whole) + len(os.fsencode(ending)) <= most:
        return name + ending
    ending = f"~{sha256(whole).hexdigest()[:8]}{ending}"
    kept = whole[: most - len(os.fsencode(ending))]
    # A letter of several bytes is not cut.
    while kept and name.isprintable() and (whole[len(kept)] & 0xC0) == 0x80:
        kept = kept[:-1]
    return os.fsdecode(kept) + ending


def is_special(path: Path) -> bool:
    """Return whether the path leads to a device, a pipe or a socket, as `/dev/null` and `/dev/stdout` do."""
    try:
        mode = path.stat().st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


_DATABASE = b"SQLite format 3\x00"


def is_database(path: Path) -> bool:
    """Return whether there is an SQLite database, as a store is, of which nothing would be left."""
    # To open a pipe would take what is for another reader.
    if not path.is_file():
        return False
    try:
        with path.open("rb") as file:
            return file.read(len(_DATABASE)) == _DATABASE
    except OSError:
        return False


@contextmanager
def appearing(path: Path) -> Iterator[BinaryIO]:
    """Write a file that appears under its name, on the disk, only when all went well, and else not at all.

    A device or a pipe is written to as it is: a file must not take its place. Raises `FileExistsError` where there is a
    database of that name.
    """
    if is_database(path):
        raise FileExistsError(EEXIST, "it is a database: name another file", str(path))
    if is_special(path):
        with path.open("wb") as file:
            yield file
        return
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{secrets.token_hex(4)}.tmp")
    try:
        with temporary.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        sync(path.parent)
    except BaseException:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise


def sync(path: Path) -> None:
    """Put a file's or folder's content on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
