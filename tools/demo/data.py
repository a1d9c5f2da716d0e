"""The demo's data: the Greek New Testament and the Berean Standard Bible, linked word by word by hand.

They come in the package bible-alignments of the Python package index: text of the SBLGNT (CC BY 4.0, Society of
Biblical Literature and Logos Bible Software), text of the Berean Standard Bible (public domain), and alignments
(CC BY 4.0, Biblica).
"""

import hashlib
import json
import subprocess
import sys
import tempfile
import unicodedata
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from hierogram.daemon.exceptions import DaemonError, InputError
from hierogram.daemon.files import cache_folder
from hierogram.daemon.text.burrito import common_verses, links_by_verse, token_text

PACKAGE = "bible-alignments==0.4.2"
WHEEL = "bible_alignments-0.4.2-py3-none-any.whl"
SHA256 = "84f6b15e706657777824aac811567cb5cb2b38ad2b94497209f5f3c3f67b0984"
CREDITS = (
    "Greek New Testament (SBLGNT, CC BY 4.0), Berean Standard Bible (public domain), "
    "word alignments by Biblica (CC BY 4.0)"
)

SOURCE_FILE = "data/sources/SBLGNT.tsv"
TARGET_FILE = "data/eng/targets/BSB/nt_BSB.tsv"
ALIGNMENT_FILE = "data/eng/alignments/BSB/SBLGNT-BSB-manual.json"

_FETCH_SECONDS = 300
_FIRST_BOOK = 40
_BOOKS = (
    "MAT", "MRK", "LUK", "JHN", "ACT", "ROM", "1CO", "2CO", "GAL", "EPH", "PHP", "COL", "1TH", "2TH",
    "1TI", "2TI", "TIT", "PHM", "HEB", "JAS", "1PE", "2PE", "1JN", "2JN", "3JN", "JUD", "REV",
)  # fmt: skip
_GRAVE, _ACUTE = "\u0300", "\u0301"


@dataclass(frozen=True, slots=True)
class VersePair:
    """A verse in both languages: its name (`JHN 1:1`), the words of each side, links as pairs of positions."""

    name: str
    source: list[str]
    target: list[str]
    links: list[tuple[int, int]]

    def given(self, with_links: bool = True) -> dict[str, object]:
        """Return the pair as ingest takes it."""
        pair: dict[str, object] = {"id": self.name, "source": " ".join(self.source), "target": " ".join(self.target)}
        return pair | ({"alignment": self.links} if with_links else {})


def fetch() -> Path:
    """Return the wheel, from the cache or else from the package index by pip; raises `DaemonError`."""
    kept = cache_folder() / WHEEL
    # A damaged copy is fetched again.
    if kept.is_file() and _digest(kept) == SHA256:
        return kept
    try:
        kept.parent.mkdir(mode=0o755, parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=kept.parent) as folder:
            fetched = _download(Path(folder))
            check(fetched)
            fetched.replace(kept)
    except OSError as error:
        raise DaemonError(
            f"{kept.parent}: the demo's data cannot be kept there: {error.strerror or error}: "
            "set HIEROGRAM_CACHE to a folder that you can write to"
        ) from error
    return kept


def _download(folder: Path) -> Path:
    command = [sys.executable, "-m", "pip", "download", "--no-deps", "--only-binary=:all:", "--quiet", "--no-input"]
    # The package names Python versions for its code; only its data are used here.
    command += ["--ignore-requires-python", "--disable-pip-version-check", "--dest", str(folder), PACKAGE]
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=_FETCH_SECONDS, check=False)
        said = run.stderr.strip().splitlines()[-1:] or ["it gave no reason"]
    except subprocess.TimeoutExpired:
        said = [f"no answer within {_FETCH_SECONDS} s"]
    fetched = folder / WHEEL
    if not fetched.is_file():
        raise DaemonError(
            f"the demo's data could not be fetched ({said[0]}): try again with a network, or fetch {WHEEL} elsewhere "
            f"(pip download --no-deps {PACKAGE}) and give it with `hierogram demo --data {WHEEL}`"
        )
    return fetched


def check(wheel: Path) -> None:
    """Raise `DaemonError` where the file is not the wheel that the demo knows, byte for byte."""
    found = _digest(wheel)
    if found != SHA256:
        raise DaemonError(
            f"{wheel}: is not the demo's data, {WHEEL}: its SHA-256 is {found}, not {SHA256}: leave out --data, and "
            f"the demo fetches it, or give what `pip download --no-deps {PACKAGE}` fetches"
        )


def _digest(path: Path) -> str:
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise DaemonError(f"{path}: cannot be read: {error.strerror or error}") from error


def read_verses(wheel: Path) -> Iterator[VersePair]:
    """Yield the verses that both texts have, in their order, with the links within each.

    Words are lower-cased and in NFC; a Greek word's grave accent, which only tells that another word follows, becomes
    the acute of its dictionary form. Target tokens that the data exclude from alignment, the punctuation, are left
    out. Raises `DaemonError` where a file is missing or not as expected.
    """
    try:
        with zipfile.ZipFile(wheel) as archive:
            source, target = (
                token_text(archive.read(name).decode().splitlines(), name) for name in (SOURCE_FILE, TARGET_FILE)
            )
            links = links_by_verse(source, target, json.loads(archive.read(ALIGNMENT_FILE))["records"])
        for verse in common_verses(source, target):
            words, others = (list(map(plain, text.tokens[verse])) for text in (source, target))
            yield VersePair(verse_name(verse), words, others, sorted(links.get(verse, ())))
    except (OSError, zipfile.BadZipFile, KeyError, ValueError, InputError) as error:
        raise DaemonError(f"{wheel}: is not the demo's data: {error}") from error


def plain(word: str) -> str:
    """Return the word in lower case and NFC, with acute accents for grave ones."""
    letters = unicodedata.normalize("NFD", word.lower()).replace(_GRAVE, _ACUTE)
    return unicodedata.normalize("NFC", letters)


def verse_name(number: str) -> str:
    """Return `43001001` as `JHN 1:1`: book, chapter and verse as numbers of two, three and three digits."""
    return f"{_BOOKS[int(number[:2]) - _FIRST_BOOK]} {int(number[2:5])}:{int(number[5:8])}"
