"""Word alignments as text: Pharaoh lines `0-0 1-2`, source position first, counted from 0.

The canonical line has its links sorted, without repeats, without leading zeros, one space between them.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hierogram.daemon.corpora.rejections import LINK_OUT_OF_RANGE, MALFORMED_LINK, RejectionError, shown

_DASH, _SPACE, _LINE_FEED = b"- \n"
_MOST_DIGITS = 9
_ROOM = b"\n\n\n"


def canonical_alignment(line: bytes, source_length: int, target_length: int) -> str:
    """The canonical line with the same links; raises `RejectionError` where there is anything but links in range."""
    links = set()
    for link in line.replace(b"\t", b" ").split(b" "):
        if not link:
            continue
        source, _, target = link.partition(b"-")
        if not (source.isdigit() and target.isdigit()):
            raise RejectionError(
                MALFORMED_LINK, f"alignment: {shown(link)} is no link: write i-j, word numbers counted from 0"
            )
        numbers = (_number(source), _number(target))
        if numbers[0] >= source_length or numbers[1] >= target_length:
            raise RejectionError(
                LINK_OUT_OF_RANGE,
                f"alignment: link {shown(link)} is out of range: "
                f"the source side has {source_length} words, the target side {target_length}, counted from 0",
            )
        links.add(numbers)
    return " ".join([f"{source}-{target}" for source, target in sorted(links)])


def _number(digits: bytes) -> int:
    significant = digits.lstrip(b"0")
    return int(significant or b"0") if len(significant) <= _MOST_DIGITS else 10**_MOST_DIGITS


def are_canonical(
    lines: Sequence[bytes], source_lengths: Sequence[int], target_lengths: Sequence[int]
) -> NDArray[np.bool_]:
    """Which of the lines are canonical and in range as they stand, bool[len(lines)]; no line holds a line feed.

    All lines at once, because most lines of most files are: `canonical_alignment` has to see only the others.
    A line with a number of more than three digits is left to it, too.
    """
    canonical = np.ones(len(lines), np.bool_)
    # Room for three digits before the first number.
    text = np.frombuffer(_ROOM + b"\n".join(lines) + b"\n", np.uint8)
    digits = text - np.uint8(ord("0"))
    ends = np.flatnonzero(digits > 9)[len(_ROOM) - 1 :].astype(np.int32)
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

    # Every dash is followed by another end, the last line feed if no other.
    first = np.flatnonzero(dashes)
    line, source, target = line_of[first], numbers[first], numbers[first + 1]
    fits = (source < np.asarray(source_lengths)[line]) & (target < np.asarray(target_lengths)[line])
    link = source.astype(np.int32) * 1024 + target
    fits[1:] &= (link[1:] > link[:-1]) | (line[1:] > line[:-1])
    canonical[line[~fits]] = False
    return canonical
