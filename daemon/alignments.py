"""Word alignments as text: Pharaoh lines `0-0 1-2`, source position first, counted from 0.

The canonical line has its links sorted, without repeats, without leading zeros, one space between them.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from hierogram.daemon.faults import LINK_OUT_OF_RANGE, MALFORMED_LINK, FaultError, shown

_DASH, _SPACE, _LINE_FEED = b"- \n"
_MOST_DIGITS = 9


def canonical_alignment(line: bytes, source_length: int, target_length: int) -> str:
    """The canonical line with the same links; raises `FaultError` where there is anything but links in range."""
    links = set()
    for link in line.replace(b"\t", b" ").split(b" "):
        if not link:
            continue
        source, _, target = link.partition(b"-")
        if not (source.isdigit() and target.isdigit()):
            raise FaultError(
                MALFORMED_LINK, f"alignment: {shown(link)} is no link: write i-j, word numbers counted from 0"
            )
        numbers = (_number(source), _number(target))
        if numbers[0] >= source_length or numbers[1] >= target_length:
            raise FaultError(
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
    text = np.frombuffer(b"\n".join(lines) + b"\n", np.uint8)
    digits = text - np.uint8(ord("0"))
    ends = np.flatnonzero(digits > 9)
    kinds = text[ends]
    dashes = kinds == _DASH
    line_feeds = kinds == _LINE_FEED
    line_of = np.cumsum(line_feeds) - line_feeds
    widths = np.diff(ends, prepend=-1) - 1
    after_dash = np.concatenate(([False], dashes[:-1]))
    after_line_feed = np.concatenate(([True], line_feeds[:-1]))

    numbers = digits[np.maximum(ends - 1, 0)].astype(np.int32)
    numbers += np.where(widths > 1, digits[np.maximum(ends - 2, 0)] * np.int32(10), 0)
    numbers += np.where(widths > 2, digits[np.maximum(ends - 3, 0)] * np.int32(100), 0)
    smallest = np.array([0, 0, 10, 100])[np.minimum(widths, 3)]
    links_end = ((kinds == _SPACE) | line_feeds) & after_dash
    numbered = (widths > 0) & (widths < 4) & (numbers >= smallest)
    no_links = line_feeds & after_line_feed & (widths == 0)
    sound = ((dashes & ~after_dash | links_end) & numbered) | no_links
    canonical[line_of[~sound]] = False

    # Every dash is followed by another end, the last line feed if no other.
    first = np.flatnonzero(dashes)
    line, source, target = line_of[first], numbers[first], numbers[first + 1]
    fits = (source < np.asarray(source_lengths)[line]) & (target < np.asarray(target_lengths)[line])
    order = (line * 1024 + source) * 1024 + target
    fits[1:] &= np.diff(order) > 0
    canonical[line[~fits]] = False
    return canonical
