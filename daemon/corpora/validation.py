"""From the fields of lines to sentence pairs: tokens, lengths, links in range; what is wrong is named.

Tokens are separated by spaces and tabs, any number of them; every other character, the non-breaking and other
Unicode spaces included, is part of a token, so that token numbers are those of the aligner.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import compress

from hierogram.daemon.corpora.lines import MAX_LINE_BYTES
from hierogram.daemon.corpora.pharaoh import are_canonical, canonical_alignment
from hierogram.daemon.corpora.rejections import (
    EMPTY_SIDE,
    INVALID_UTF8,
    LINE_BREAK,
    LINE_TOO_LONG,
    LINK_OUT_OF_RANGE,
    NUL_BYTE,
    TOO_LONG,
    RejectionError,
)
from hierogram.daemon.corpora.repeats import Repeats
from hierogram.samplers.grammar.known_links import KnownLinks
from hierogram.storage.records import NewPairs, RejectedLine

KEPT_BYTES = 4096
"""How much of a rejected line is kept."""

# What a column of sides in canonical form does not hold, when each line stands between two line feeds.
_UNTIDY = (b"\t", b"\r", b"\0", b"  ", b" \n", b"\n ", b"\n\n")


@dataclass(slots=True)
class Fields:
    """The lines of a chunk taken apart: entry k of every column is the same line.

    `numbers` line numbers from 1; `sources`, `targets`, `alignments` the fields, without line feeds, the alignment
    None where the line has none; `ids` external ids or None; `lines` the whole lines, or None where the fields are all
    there is. `rejected`: lines that could not be taken apart. `known`: what the few lines whose links are fixed or
    forbidden say of that, by their places.
    """

    numbers: Sequence[int]
    sources: list[bytes]
    targets: list[bytes]
    alignments: Sequence[bytes | None]
    ids: Sequence[str | None]
    lines: Sequence[bytes] | None = None
    rejected: list[RejectedLine] = field(default_factory=list)
    known: dict[int, KnownLinks] = field(default_factory=dict)

    def content(self, k: int) -> bytes:
        """Line k as it came; the lines of several files with bars between them."""
        if self.lines is not None:
            return self.lines[k]
        fields = (self.sources[k], self.targets[k], self.alignments[k])
        return b" ||| ".join(field for field in fields if field is not None)


def reject(number: int, rejection: RejectionError, content: bytes) -> RejectedLine:
    """The record of a line that is not stored."""
    return RejectedLine(number, rejection.reason, rejection.message, content[:KEPT_BYTES])


def read_side(line: bytes, name: str, max_tokens: int) -> tuple[str, int]:
    """The side's tokens, joined by one space, and their number.

    Raises `RejectionError` where the side has no tokens or more than `max_tokens`, is too long a line, is not UTF-8, or
    holds a NUL byte or a line break.
    """
    if len(line) > MAX_LINE_BYTES:
        raise RejectionError(LINE_TOO_LONG, f"the {name} line is longer than {MAX_LINE_BYTES} bytes")
    if b"\0" in line:
        raise RejectionError(NUL_BYTE, f"the {name} side holds a NUL byte at offset {line.index(0)}")
    if b"\r" in line or b"\n" in line:
        raise RejectionError(LINE_BREAK, f"the {name} side holds a line break")
    try:
        text = line.decode()
    except UnicodeDecodeError as error:
        raise RejectionError(
            INVALID_UTF8, f"the {name} side is not UTF-8: byte 0x{line[error.start]:02x} at offset {error.start}"
        ) from error
    tokens = [token for token in text.replace("\t", " ").split(" ") if token]
    if not tokens:
        raise RejectionError(EMPTY_SIDE, f"the {name} side has no tokens")
    if len(tokens) > max_tokens:
        raise RejectionError(
            TOO_LONG,
            f"the {name} side has {len(tokens)} tokens, this store takes at most {max_tokens} "
            "(`hierogram init --max-tokens`)",
        )
    return " ".join(tokens), len(tokens)


def _read_tidy_sides(lines: Sequence[bytes], max_tokens: int) -> tuple[list[str], list[int]] | None:
    """What `read_side` gives for each of the lines; None where some line has to be looked at for itself."""
    column = b"\n%b\n" % b"\n".join(lines)
    if any(untidy in column for untidy in _UNTIDY):
        return None
    try:
        texts = column.decode()[1:-1].split("\n")
    except UnicodeDecodeError:
        return None
    lengths = [text.count(" ") + 1 for text in texts]
    if max(lengths) > max_tokens or len(max(lines, key=len)) > MAX_LINE_BYTES:
        return None
    return texts, lengths


def read_sides(
    lines: Sequence[bytes], name: str, max_tokens: int, rejections: dict[int, RejectionError]
) -> tuple[list[str], list[int]]:
    """Texts and lengths of a column of sides; rejections are added by the line's place in the column."""
    tidy = _read_tidy_sides(lines, max_tokens) if lines else ([], [])
    if tidy is not None:
        return tidy
    texts, lengths = [], []
    for k, line in enumerate(lines):
        try:
            text, length = read_side(line, name, max_tokens)
        except RejectionError as rejection:
            rejections.setdefault(k, rejection)
            text, length = "", 0
        texts.append(text)
        lengths.append(length)
    return texts, lengths


def read_alignments(
    lines: Sequence[bytes | None],
    source_lengths: Sequence[int],
    target_lengths: Sequence[int],
    rejections: dict[int, RejectionError],
) -> Sequence[str | None]:
    """The canonical lines, None where there is none; the rejections are added to `rejections` by the line's place."""
    given = [(k, line) for k, line in enumerate(lines) if line is not None]
    if len(given) == len(lines):
        return _read_given([line for _, line in given], source_lengths, target_lengths, rejections)
    places = [k for k, _ in given]
    own_rejections: dict[int, RejectionError] = {n: rejections[k] for n, k in enumerate(places) if k in rejections}
    lengths = [source_lengths[k] for k in places], [target_lengths[k] for k in places]
    read = _read_given([line for _, line in given], *lengths, own_rejections)
    for n, rejection in own_rejections.items():
        rejections.setdefault(places[n], rejection)
    texts: list[str | None] = [None] * len(lines)
    for k, text in zip(places, read, strict=True):
        texts[k] = text
    return texts


def _read_given(
    lines: Sequence[bytes],
    source_lengths: Sequence[int],
    target_lengths: Sequence[int],
    rejections: dict[int, RejectionError],
) -> list[str]:
    if not lines:
        return []
    canonical = are_canonical(lines, source_lengths, target_lengths).tolist()
    texts = []
    for k, line in enumerate(lines):
        text = ""
        if canonical[k]:
            text = line.decode("ascii")
        elif k not in rejections:
            try:
                text = canonical_alignment(line, source_lengths[k], target_lengths[k])
            except RejectionError as rejection:
                rejections[k] = rejection
        texts.append(text)
    return texts


def validate(fields: Fields, max_tokens: int, repeats: Repeats) -> tuple[NewPairs, list[RejectedLine]]:
    """The pairs that the fields make and the lines that make none; every line is in one of the two, once."""
    rejections: dict[int, RejectionError] = {}
    sources, source_lengths = read_sides(fields.sources, "source", max_tokens, rejections)
    targets, target_lengths = read_sides(fields.targets, "target", max_tokens, rejections)
    alignments = read_alignments(fields.alignments, source_lengths, target_lengths, rejections)
    for k, known in fields.known.items():
        problem = known.problem(source_lengths[k], target_lengths[k])
        if problem:
            rejections.setdefault(k, RejectionError(LINK_OUT_OF_RANGE, f"{problem}: words are counted from 0"))
    rejected = fields.rejected + [
        reject(fields.numbers[k], rejection, fields.content(k)) for k, rejection in sorted(rejections.items())
    ]
    rejected.sort(key=lambda line: line.line)
    first = [0] * len(sources)
    pairs = NewPairs(
        sources, targets, alignments, source_lengths, target_lengths, fields.numbers, fields.ids, first, fields.known
    )
    if rejections:
        pairs = pairs.at([k for k in range(len(pairs)) if k not in rejections])
    return replace(pairs, occurrences=_occurrences(pairs, repeats)), rejected


def _occurrences(pairs: NewPairs, repeats: Repeats) -> list[int]:
    """Of each pair the number of its repeat; 0 for pairs with an identifier, whose repeats are told by that."""
    nameless = [own is None for own in pairs.external_ids]
    if all(nameless):
        return repeats.occurrences(pairs.sources, pairs.targets, pairs.alignments)
    told = pairs.at(list(compress(range(len(pairs)), nameless)))
    numbers = iter(repeats.occurrences(told.sources, told.targets, told.alignments))
    return [next(numbers) if without else 0 for without in nameless]
