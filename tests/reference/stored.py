"""Plain-Python checks that bytes are a valid derivation, or a valid record of averages, of a pair."""

from collections.abc import Sequence
from typing import NamedTuple

MAX_SWEEPS = 2048
ONE_USE = 4096
ROUNDING_DRAWS = 128
BYTES_PER_SLOT = 10
NUMBER_BITS = 56
LARGEST = 0xFFFFFFFF
ITG_BASE = 5
STRAIGHT, INVERTED, PAIR, SOURCE_NULL, TARGET_NULL = range(5)


class MalformedError(Exception):
    """Bytes end too soon, a number is too large or not in its shortest form, or a fragment does not fit its forest."""


class Numbers:
    """Reader of LEB128 varints in their shortest form."""

    def __init__(self, content: bytes) -> None:
        self._content = content
        self.position = 0

    @property
    def ended(self) -> bool:
        return self.position == len(self._content)

    def next(self) -> int:
        value = shift = 0
        while shift < NUMBER_BITS and not self.ended:
            byte = self._content[self.position]
            self.position += 1
            value |= (byte & 0x7F) << shift
            if byte < 0x80:
                if byte == 0 and shift:
                    break
                return value
            shift += 7
        raise MalformedError

    def take(self, size: int) -> bytes:
        if size < 0 or self.position + size > len(self._content):
            raise MalformedError
        self.position += size
        return self._content[self.position - size : self.position]


class ForestNode(NamedTuple):
    """A node: its edges as lists of tails, whether its cut is free, and its level."""

    edges: Sequence[Sequence[int]]
    free: bool
    level: int


def is_state(content: bytes, nodes: Sequence[ForestNode]) -> bool:
    """Check if bytes are values of all variables of a forest: existing edges, and cut 1 if the cut is not free."""
    numbers = Numbers(content)
    try:
        for node in nodes:
            edge, cut = divmod(numbers.next(), 2)
            if edge >= len(node.edges) or not (cut or node.free):
                return False
    except MalformedError:
        return False
    return numbers.ended


def _check_fragment(content: bytes, root: int, nodes: Sequence[ForestNode]) -> None:
    """Raise `MalformedError` if bytes are not a fragment at this root."""
    if not 0 <= root < len(nodes):
        raise MalformedError
    numbers = Numbers(content)
    pending = [root]
    while pending:
        x = pending.pop()
        edge, cut = divmod(numbers.next(), 2)
        if x == root and not cut:
            raise MalformedError
        if x != root and cut:
            if edge:
                raise MalformedError
            continue
        if edge >= len(nodes[x].edges) or not (cut or nodes[x].free):
            raise MalformedError
        pending += reversed(nodes[x].edges[edge])
    if not numbers.ended:
        raise MalformedError


def is_record(content: bytes, nodes: Sequence[ForestNode]) -> bool:
    """Check if bytes are the averages of a pair with this forest."""
    if not content:
        return True
    try:
        return _is_record(Numbers(content), nodes)
    except MalformedError:
        return False


def _is_record(numbers: Numbers, nodes: Sequence[ForestNode]) -> bool:
    sweeps, floor = numbers.next(), numbers.next()
    level = nodes[-1].level
    left = level * ONE_USE * sweeps
    if not 0 < sweeps < MAX_SWEEPS or floor > LARGEST:
        return False
    slots = 16 + 4 * level
    while not numbers.ended:
        root, uses, missed, draw, size = (numbers.next() for _ in range(5))
        if size < 1 or uses >> 2 > LARGEST or missed > LARGEST or draw >= ROUNDING_DRAWS or size > 0xFFFF:
            return False
        slots -= -(-size // BYTES_PER_SLOT)
        _check_fragment(numbers.take(size), root, nodes)
        left -= uses >> 2
        if slots < 0 or left < 0:
            return False
    return True


def is_itg(content: bytes, words: tuple[int, int], longest: int) -> bool:
    """Check if bytes are an ITG derivation of a pair with these numbers of words."""
    if len(content) > max(2 * sum(words) - 1, 0):
        return False
    # Count the children that are still missing.
    pending = 1
    source = target = 0
    for place, rule in enumerate(content):
        if pending == 0 and place:
            return False
        pending -= 1
        if rule in (STRAIGHT, INVERTED):
            pending += 2
            continue
        height, width = {PAIR: (1, 1), SOURCE_NULL: (1, 0), TARGET_NULL: (0, 1)}.get(
            rule, ((rule - 1) // ITG_BASE, (rule - 1) % ITG_BASE + 1)
        )
        if rule > TARGET_NULL and not (
            1 <= height <= ITG_BASE and (height, width) != (1, 1) and max(height, width) <= longest
        ):
            return False
        source, target = source + height, target + width
    return pending == 0 and (source, target) == words


def is_itg_record(content: bytes, words: tuple[int, int], longest: int) -> bool:
    """Check if bytes are the averages of an ITG pair with these numbers of words."""
    if not content:
        return True
    n, m = words
    simple = 2 + n + m + n * m
    numbers = Numbers(content)
    try:
        sweeps = numbers.next()
        if not 0 < sweeps < MAX_SWEEPS:
            return False
        left, at, first = sweeps * (2 * (n + m) - 1), 0, True
        while not numbers.ended:
            step, uses = numbers.next(), numbers.next()
            at += step
            if uses < 1 or (step == 0 and not first) or at >= simple + n * m * (longest**2 - 1):
                return False
            if at >= simple and not _is_phrase(at - simple, words, longest):
                return False
            left, first = left - uses, False
            if left < 0:
                return False
    except MalformedError:
        return False
    return True


def _is_phrase(number: int, words: tuple[int, int], longest: int) -> bool:
    """Check if a phrase pair, by its number among all of a pair, ends within both sides."""
    cell, place = divmod(number, longest**2 - 1)
    i, x = divmod(cell, words[1])
    height, width = divmod(place + 1, longest)
    return i + height < words[0] and x + width < words[1]
