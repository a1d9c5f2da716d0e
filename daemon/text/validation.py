"""Validation: convert parsed lines to sentence pairs, and reject malformed lines with a reason.

Tokens are separated by spaces and tabs. Every other character, including the no-break and other Unicode spaces, is part
of a token, so that token numbers agree with the aligner's. Alignments are Pharaoh lines `0-0 1-2`, source position
first, counted from 0. The canonical line has sorted links without repeats or leading zeros, separated by one space.
Repeats of a pair within one input are numbered.
"""

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import compress
from struct import Struct

import numpy as np
from numpy.typing import NDArray

from hierogram.daemon.exceptions import TemporarySpaceError
from hierogram.daemon.text import rejections
from hierogram.daemon.text.rejections import MAX_LINE_BYTES, RejectionError, quote_bytes
from hierogram.samplers.grammar.known_links import KnownLinks, Link
from hierogram.storage.records.pairs import NewPairs, RejectedLine

_DASH, _SPACE, _LINE_FEED = b"- \n"
_PADDING = b"\n\n\n"


def parse_pharaoh(line: bytes, name: str = "alignment") -> list[Link]:
    """Parse a Pharaoh line. `name` is its name in messages. Raises `RejectionError`."""
    links = []
    for link in line.replace(b"\t", b" ").split(b" "):
        source, _, target = link.partition(b"-")
        if source.isdigit() and target.isdigit():
            # Cut long numbers, because Python refuses to convert very long ones. They are out of range anyway.
            links.append((int(source.lstrip(b"0")[:20] or b"0"), int(target.lstrip(b"0")[:20] or b"0")))
        elif link:
            problem = f"{name}: {quote_bytes(link)} is not a link: expected i-j, with words counted from 0"
            raise RejectionError(rejections.MALFORMED_LINK, problem)
    return links


def canonical_alignment(line: bytes, source_length: int, target_length: int) -> str:
    """Convert an alignment to its canonical line. Raises `RejectionError`, also if out of range."""
    links = parse_pharaoh(line)
    for source, target in links:
        if source >= source_length or target >= target_length:
            lengths = f"the source side has {source_length} words and the target side {target_length}"
            problem = f"alignment: link '{source}-{target}' is out of range: {lengths} (positions are counted from 0)"
            raise RejectionError(rejections.LINK_OUT_OF_RANGE, problem)
    return " ".join([f"{source}-{target}" for source, target in sorted(set(links))])


def are_canonical(
    lines: Sequence[bytes], source_lengths: Sequence[int], target_lengths: Sequence[int]
) -> NDArray[np.bool_]:
    """Return a mask of alignments that are canonical and in range. It may miss some, for speed."""
    canonical = np.ones(len(lines), np.bool_)
    # Pad the text, so that three bytes can be read before the end of every number, including the first.
    text = np.frombuffer(_PADDING + b"\n".join(lines) + b"\n", np.uint8)
    digits = text - np.uint8(ord("0"))
    ends = np.flatnonzero(digits > 9)[len(_PADDING) - 1 :].astype(np.int32)
    widths = np.diff(ends) - 1
    before, ends = ends[:-1], ends[1:]
    starts_line, after_dash = text[before] == _LINE_FEED, text[before] == _DASH
    line_feeds, dashes = text[ends] == _LINE_FEED, text[ends] == _DASH
    line_of = np.cumsum(starts_line, dtype=np.int32) - 1

    ones, tens, hundreds = (digits[ends - k].astype(np.int16) for k in (1, 2, 3))
    tens *= widths > 1
    hundreds *= widths > 2
    numbers = ones + 10 * tens + 100 * hundreds
    numbered = (widths == 1) | (widths == 2) & (tens > 0) | (widths == 3) & (hundreds > 0)
    link_ends = after_dash & (line_feeds | (text[ends] == _SPACE))
    no_links = starts_line & line_feeds & (widths == 0)
    sound = numbered & (dashes & ~after_dash | link_ends) | no_links
    canonical[line_of[~sound]] = False

    # Index `first + 1` exists, because the text ends in a line feed after the last dash.
    first = np.flatnonzero(dashes)
    line, source, target = line_of[first], numbers[first], numbers[first + 1]
    fits = (source < np.asarray(source_lengths)[line]) & (target < np.asarray(target_lengths)[line])
    link = source.astype(np.int32) * 1024 + target
    fits[1:] &= (link[1:] > link[:-1]) | (line[1:] > line[:-1])
    canonical[line[~fits]] = False
    return canonical


_IN_MEMORY = 2_000_000
"""Maximum number of distinct pairs in memory. The fingerprint of each takes about 100 bytes."""
_FINGERPRINT = Struct("qq")


class DuplicateCounter:
    """Counter of repeats within one input. Above `in_memory` distinct pairs, it uses a temporary file."""

    def __init__(self, in_memory: int = _IN_MEMORY) -> None:
        self._in_memory = in_memory
        self._seen: dict[bytes, int] = {}
        self._file: sqlite3.Connection | None = None

    def occurrences(
        self, sources: Sequence[str], targets: Sequence[str], alignments: Sequence[str | None]
    ) -> list[int]:
        """Count pairs, and return the count of earlier copies of each. Raises `TemporarySpaceError`."""
        pairs = zip(sources, targets, alignments, strict=True)
        try:
            numbers = [self._count(_FINGERPRINT.pack(hash(pair), hash(pair[::-1]))) for pair in pairs]
            if len(self._seen) > self._in_memory:
                self._move_to_file()
        except sqlite3.Error as error:
            problem = f"duplicates in this input cannot be detected: no space for a temporary file ({error})"
            raise TemporarySpaceError(f"{problem}: set TMPDIR to a folder with free space") from error
        return numbers

    def _count(self, fingerprint: bytes) -> int:
        if self._file is None:
            number = self._seen[fingerprint] = self._seen.get(fingerprint, -1) + 1
        else:
            insert = "INSERT INTO seen VALUES (?, 0) ON CONFLICT DO UPDATE SET number = number + 1 RETURNING number"
            [[number]] = self._file.execute(insert, (fingerprint,)).fetchall()
        return number

    def _move_to_file(self) -> None:
        # SQLite creates an unnamed file when the cache is full, and deletes it on close. Disable the thread check,
        # because an ingest may continue in another thread, but never uses two at once.
        self._file = sqlite3.connect("", isolation_level=None, check_same_thread=False)
        for pragma in ("journal_mode=OFF", "synchronous=OFF", "cache_size=-65536"):
            self._file.execute(f"PRAGMA {pragma}").close()
        self._file.execute("CREATE TABLE seen (fingerprint BLOB PRIMARY KEY, number INTEGER) WITHOUT ROWID").close()
        self._file.execute("BEGIN").close()
        self._file.executemany("INSERT INTO seen VALUES (?, ?)", sorted(self._seen.items())).close()
        self._seen = {}

    def close(self) -> None:
        """Delete the temporary file, if any."""
        if self._file is not None:
            self._file.close()


KEPT_BYTES = 4096
"""Maximum number of bytes of a rejected line that are stored."""


@dataclass(slots=True)
class LineColumns:
    """Parsed lines of a chunk, in columns: entry k of every list but `rejected` belongs to the same line.

    `line_numbers` count from 1. `sources`, `targets` and `alignments` are fields as written, without line feeds, None
    for a missing alignment. `external_ids` are the ids in the input, or None. `lines` are the whole lines, None if the
    fields contain everything. `rejected` are lines that could not be parsed. `known_links` are fixed and forbidden
    links by index k.
    """

    line_numbers: list[int] = field(default_factory=list)
    sources: list[bytes] = field(default_factory=list)
    targets: list[bytes] = field(default_factory=list)
    alignments: list[bytes | None] = field(default_factory=list)
    external_ids: list[str | None] = field(default_factory=list)
    lines: list[bytes] | None = None
    rejected: list[RejectedLine] = field(default_factory=list)
    known_links: dict[int, KnownLinks] = field(default_factory=dict)

    def append(
        self, number: int, source: bytes, target: bytes, alignment: bytes | None = None, external_id: str | None = None
    ) -> None:
        """Add a parsed line to the first five columns. The caller adds it to `lines` and `known_links`."""
        self.line_numbers.append(number)
        self.sources.append(source)
        self.targets.append(target)
        self.alignments.append(alignment)
        self.external_ids.append(external_id)

    def linked(self) -> set[int]:
        """Return the indices of the lines with links, which must not be tokenized, because links count words."""
        return {k for k, alignment in enumerate(self.alignments) if alignment is not None}.union(self.known_links)

    def content(self, k: int) -> bytes:
        """Return the line at index `k` for messages: the whole line, or its fields joined by ` ||| `."""
        if self.lines is not None:
            return self.lines[k]
        fields = (self.sources[k], self.targets[k], self.alignments[k])
        return b" ||| ".join(field for field in fields if field is not None)


def reject(number: int, rejection: RejectionError, content: bytes) -> RejectedLine:
    """Return the record of a rejected line, with up to `KEPT_BYTES` of its content."""
    return RejectedLine(number, rejection.reason, rejection.message, content[:KEPT_BYTES])


def split_tokens(text: str) -> list[str]:
    """Split a line at spaces and tabs. Keeps carriage returns, which are rejected later."""
    return [token for token in text.replace("\t", " ").split(" ") if token]


def decode_text(content: bytes, name: str) -> str:
    """Decode UTF-8 text. `name` is its name in messages. Raises `RejectionError`."""
    if len(content) > MAX_LINE_BYTES:
        raise RejectionError(rejections.LINE_TOO_LONG, f"{name} exceeds {MAX_LINE_BYTES} bytes")
    if b"\0" in content:
        raise RejectionError(rejections.NUL_BYTE, f"{name} contains a NUL byte at offset {content.index(0)}")
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        problem = f"{name} is not UTF-8: byte 0x{content[error.start]:02x} at offset {error.start}"
        raise RejectionError(rejections.INVALID_UTF8, problem) from error


def check_length(name: str, length: int, unit: str, limit: int) -> None:
    """Raise `RejectionError` if `length` exceeds `limit`. `name` and plural `unit` are for messages."""
    if length > limit:
        advice = f"the limit of this store is {limit} (`hierogram init --max-tokens`)"
        raise RejectionError(rejections.TOO_LONG, f"{name} has {length} {unit}, {advice}")


def read_side(line: bytes, name: str, max_tokens: int) -> tuple[str, int]:
    """Return the side's tokens, joined by one space, and their number. Raises `RejectionError`."""
    side = f"the {name} side"
    text = decode_text(line, side)
    if "\r" in text or "\n" in text:
        raise RejectionError(rejections.LINE_BREAK, f"{side} contains a line break")
    tokens = split_tokens(text)
    if not tokens:
        raise RejectionError(rejections.EMPTY_SIDE, f"{side} has no tokens")
    check_length(side, len(tokens), "tokens", max_tokens)
    return " ".join(tokens), len(tokens)


def _read_sides(
    lines: Sequence[bytes], name: str, max_tokens: int, errors: dict[int, RejectionError]
) -> tuple[list[str], list[int]]:
    texts, lengths = [""] * len(lines), [0] * len(lines)
    for k, line in enumerate(lines):
        try:
            texts[k], lengths[k] = read_side(line, name, max_tokens)
        except RejectionError as rejection:
            errors.setdefault(k, rejection)
    return texts, lengths


def _read_alignments(
    lines: Sequence[bytes | None],
    source_lengths: Sequence[int],
    target_lengths: Sequence[int],
    errors: dict[int, RejectionError],
) -> Sequence[str | None]:
    texts: list[str | None] = [None] * len(lines)
    if lines.count(None) == len(lines):
        return texts
    canonical = are_canonical([line or b"" for line in lines], source_lengths, target_lengths).tolist()
    for k, line in enumerate(lines):
        if line is None:
            continue
        if canonical[k]:
            texts[k] = line.decode("ascii")
        elif k not in errors:
            try:
                texts[k] = canonical_alignment(line, source_lengths[k], target_lengths[k])
            except RejectionError as rejection:
                errors[k] = rejection
    return texts


def validate(columns: LineColumns, max_tokens: int, repeats: DuplicateCounter) -> tuple[NewPairs, list[RejectedLine]]:
    """Validate tokenized lines, in input order. Returns valid pairs, and all rejected lines."""
    errors: dict[int, RejectionError] = {}
    sources, source_lengths = _read_sides(columns.sources, "source", max_tokens, errors)
    targets, target_lengths = _read_sides(columns.targets, "target", max_tokens, errors)
    alignments = _read_alignments(columns.alignments, source_lengths, target_lengths, errors)
    for k, known_links in columns.known_links.items():
        problem = known_links.problem(source_lengths[k], target_lengths[k])
        if problem:
            errors.setdefault(k, RejectionError(rejections.LINK_OUT_OF_RANGE, f"{problem}: words are counted from 0"))
    line_numbers = columns.line_numbers
    invalid = [reject(line_numbers[k], rejection, columns.content(k)) for k, rejection in sorted(errors.items())]
    rejected = sorted(columns.rejected + invalid, key=lambda line: line.line)
    pairs = NewPairs(
        sources=sources,
        targets=targets,
        alignments=alignments,
        source_lengths=source_lengths,
        target_lengths=target_lengths,
        lines=line_numbers,
        external_ids=columns.external_ids,
        occurrences=[0] * len(sources),
        human_links=columns.known_links,
    )
    if errors:
        pairs = pairs.at([k for k in range(len(pairs)) if k not in errors])
    # Number repeats only among pairs without an id, because an id already distinguishes them.
    without_id = [external_id is None for external_id in pairs.external_ids]
    sources, targets = (list(compress(side, without_id)) for side in (pairs.sources, pairs.targets))
    numbers = iter(repeats.occurrences(sources, targets, list(compress(pairs.alignments, without_id))))
    return replace(pairs, occurrences=[next(numbers) if without else 0 for without in without_id]), rejected
