"""Hiero's heuristic grammar of any number of pairs: sorted runs of rules on the disk, one merge, rules as text.

Rows are those of `hierogram.tools.extraction.extraction`. Since they compare as the rules' symbols do, one merge of
sorted runs brings equal rules together, and all rules of one source side.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from tempfile import TemporaryFile
from threading import Lock
from types import TracebackType
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit, njit_inline
from hierogram.samplers.counts.rendering import Spellings, put_nonterminal, put_number
from hierogram.samplers.forests.forest import Bitext
from hierogram.tools.extraction.extraction import (
    FIRST_WORD,
    MASS_UNIT,
    Limits,
    Place,
    RowShape,
    RuleBuffer,
    empty_buffer,
    extract,
    make_buffer,
    make_scratch,
    row_shape,
)

RULES_A_BUFFER = 1 << 20
RULES_A_BLOCK = 1 << 16
_HALF = np.uint64(32)
_SYMBOL = np.uint64(0xFFFFFFFF)
_DECIMALS = 10_000
_NOTATION = 16
"""Bytes that a nonterminal, a bar or a count take at most."""


def sorted_rows(rows: NDArray[np.uint64], shape: RowShape) -> NDArray[np.uint64]:
    """A copy of the rows in the order of their symbols."""
    order = np.argsort(rows[:, 0], kind="stable")
    _sort_ties(rows, order, np.empty_like(order), shape.symbol_words)
    return rows[order]


@njit_inline
def _is_before(a, b, words):
    """Whether row `a` comes before row `b` by its first words."""
    for k in range(words):
        if a[k] != b[k]:
            return a[k] < b[k]
    return False


@njit
def _sort_ties(rows, order, spare, words):
    """Sort each stretch of `order` whose rows have the same first word, by merging ever longer stretches."""
    begin = 0
    while begin < len(order):
        end = begin + 1
        while end < len(order) and rows[order[end], 0] == rows[order[begin], 0]:
            end += 1
        width = 1
        while width < end - begin:
            for start in range(begin, end, 2 * width):
                middle = min(start + width, end)
                last = min(start + 2 * width, end)
                a = start
                b = middle
                for k in range(start, last):
                    if b >= last or (a < middle and not _is_before(rows[order[b]], rows[order[a]], words)):
                        spare[k] = order[a]
                        a += 1
                    else:
                        spare[k] = order[b]
                        b += 1
            for k in range(begin, end):
                order[k] = spare[k]
            width *= 2
        begin = end


class Merge(NamedTuple):
    """Sorted runs that lie one after the other in `rows` uint64[n, width], on their way into one.

    `heads`, `ends` int64[runs]: what is left of each run; `heap` int64[runs] the runs that are not at their end, as a
    heap with the smallest row first, and `size` int64[1] how many they are.
    """

    rows: NDArray[np.uint64]
    heads: NDArray[np.int64]
    ends: NDArray[np.int64]
    heap: NDArray[np.int64]
    size: NDArray[np.int64]


@njit
def _sink(merge, place, words):
    """Put the run at a place of the heap where it belongs below it."""
    heap = merge.heap
    while True:
        child = 2 * place + 1
        if child >= merge.size[0]:
            return
        row = merge.rows[merge.heads[heap[child]]]
        if child + 1 < merge.size[0] and _is_before(merge.rows[merge.heads[heap[child + 1]]], row, words):
            child += 1
            row = merge.rows[merge.heads[heap[child]]]
        if not _is_before(row, merge.rows[merge.heads[heap[place]]], words):
            return
        heap[place], heap[child] = heap[child], heap[place]
        place = child


@njit
def _merge_some(merge, shape, merged):
    """Fill `merged` with the next rules, each once; how many. Every rule's rows are taken together."""
    words = shape.symbol_words
    found = 0
    while merge.size[0] > 0:
        run = merge.heap[0]
        row = merge.rows[merge.heads[run]]
        if found > 0 and not _is_before(merged[found - 1], row, words):
            merged[found - 1, shape.occurrences] += row[shape.occurrences]
            merged[found - 1, shape.mass] += row[shape.mass]
        else:
            if found == len(merged):
                break
            for k in range(shape.width):
                merged[found, k] = row[k]
            found += 1
        merge.heads[run] += 1
        if merge.heads[run] == merge.ends[run]:
            merge.size[0] -= 1
            merge.heap[0] = merge.heap[merge.size[0]]
        _sink(merge, 0, words)
    return found


@njit
def _make_heap(merge, words):
    for place in range(merge.size[0] // 2 - 1, -1, -1):
        _sink(merge, place, words)


def start_merge(rows: NDArray[np.uint64], ends: NDArray[np.int64], shape: RowShape) -> Merge:
    """The merge of sorted runs that end at `ends` int64[runs], each where the next one begins."""
    heads = np.concatenate([np.zeros(1, np.int64), ends[:-1]]) if len(ends) else ends.copy()
    filled = np.flatnonzero(heads < ends).astype(np.int64)
    merge = Merge(rows, heads, ends.copy(), filled, np.array([len(filled)], np.int64))
    _make_heap(merge, shape.symbol_words)
    return merge


def merge_some(merge: Merge, shape: RowShape, most: int) -> NDArray[np.uint64]:
    """At most so many further rules as rows, each once, with its sums; none at the end."""
    merged = np.empty((most, shape.width), np.uint64)
    return merged[: _merge_some(merge, shape, merged)]


@njit_inline
def _symbol(row, word, place):
    """Symbol number `place` of the side that begins at a packed word of a row."""
    packed = row[word + (place >> 1)]
    return np.int64(packed & _SYMBOL) if place & 1 else np.int64(packed >> _HALF)


class SourceSides(NamedTuple):
    """The source sides of rules: `symbols` int32 (word numbers; a nonterminal k is -k), `starts` int64[n+1]."""

    symbols: NDArray[np.int32]
    starts: NDArray[np.int64]


@njit
def _read_sides(rows, source_words, symbols, starts, scopes, terminals):
    taken = 0
    for k in range(len(rows)):
        starts[k] = taken
        for place in range(2 * source_words):
            symbol = _symbol(rows[k], 0, place)
            if symbol == 0:
                break
            symbols[taken] = symbol - FIRST_WORD if symbol >= FIRST_WORD else -symbol
            taken += 1
        scope, words = scope_and_words(symbols, starts[k], taken)
        scopes[k] = scope
        terminals[k] = words
    starts[len(rows)] = taken
    return taken


@njit_inline
def scope_and_words(symbols, start, end):
    """Scope and words of a side of symbols, nonterminals below 0 [Hopkins & Langmead 2010]; see `rules.side_scope`."""
    scope = 0
    words = 0
    after_nonterminal = 1
    for k in range(start, end):
        is_nonterminal = 1 if symbols[k] < 0 else 0
        scope += after_nonterminal & is_nonterminal
        words += 1 - is_nonterminal
        after_nonterminal = is_nonterminal
    if end > start:
        scope += after_nonterminal
    return scope, words


def read_sources(rows: NDArray[np.uint64], shape: RowShape) -> tuple[SourceSides, NDArray[np.int32], NDArray[np.int32]]:
    """The source sides of rows, their scopes int32[n], and how many words they have, int32[n]."""
    symbols = np.empty(2 * shape.source_words * len(rows), np.int32)
    starts = np.empty(len(rows) + 1, np.int64)
    scopes, terminals = np.empty((2, len(rows)), np.int32)
    taken = _read_sides(rows, shape.source_words, symbols, starts, scopes, terminals)
    return SourceSides(symbols[:taken], starts), scopes, terminals


@njit
def _put_text(buffer, position, row, word, places, spelling):
    for place in range(places):
        symbol = _symbol(row, word, place)
        if symbol == 0:
            break
        if symbol >= FIRST_WORD:
            for c in range(spelling.starts[symbol - FIRST_WORD], spelling.starts[symbol - FIRST_WORD + 1]):
                buffer[position] = spelling.letters[c]
                position += 1
        else:
            position = put_nonterminal(buffer, position, symbol)
        buffer[position] = 32
        position += 1
    for k in range(3):
        buffer[position + k] = 124  # |
    buffer[position + 3] = 32
    return position + 4


@njit
def _put_lines(rows, shape, source, target, buffer):
    position = 0
    for k in range(len(rows)):
        row = rows[k]
        position = _put_text(buffer, position, row, 0, 2 * shape.source_words, source)
        places = 2 * (shape.symbol_words - shape.source_words)
        position = _put_text(buffer, position, row, shape.source_words, places, target)
        # The mass to four decimals, without zeros at the end.
        whole = np.int64(row[shape.mass]) // MASS_UNIT
        rest = (np.int64(row[shape.mass]) % MASS_UNIT * _DECIMALS + MASS_UNIT // 2) // MASS_UNIT
        if rest == _DECIMALS:
            whole += 1
            rest = 0
        position = put_number(buffer, position, whole)
        if rest > 0:
            buffer[position] = 46
            position += 1
            bound = _DECIMALS // 10
            while rest > 0:
                buffer[position] = 48 + rest // bound
                position += 1
                rest %= bound
                bound //= 10
        buffer[position] = 10
        position += 1
    return position


def rule_lines(rows: NDArray[np.uint64], shape: RowShape, source: Spellings, target: Spellings) -> bytes:
    """Rows as lines `source ||| target ||| mass`, UTF-8, in the notation of rules; masses to four decimals."""
    longest = max(_NOTATION, *(int(np.diff(side.starts).max(initial=0)) for side in (source, target)))
    buffer = np.empty(len(rows) * (2 * shape.symbol_words + 3) * (longest + 1), np.uint8)
    return buffer[: _put_lines(rows, shape, source, target, buffer)].tobytes()


class HeuristicGrammar:
    """The rules of the bitexts that are added to it; a context manager that leaves nothing on the disk.

    `rules_a_buffer` rules are held in memory by each of `threads` threads. Raises `ExtractionError`, when pairs are
    added, where one phrase has more rules than that.
    """

    def __init__(self, limits: Limits | None = None, threads: int = 2, rules_a_buffer: int = RULES_A_BUFFER) -> None:
        self.limits = limits or Limits()
        self.shape = row_shape(self.limits)
        self._threads = threads
        self._free: SimpleQueue[RuleBuffer] = SimpleQueue()
        self._buffers = [make_buffer(self.limits, rules_a_buffer) for _ in range(threads)]
        for buffer in self._buffers:
            self._free.put(buffer)
        self._file = TemporaryFile(prefix="hierogram-rules-")  # noqa: SIM115 closed by __exit__
        self._ends: list[int] = []
        self._writing = Lock()

    def __enter__(self) -> Self:
        """The grammar itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def add(self, bitexts: Iterable[Bitext], report: Callable[[int], None] | None = None) -> None:
        """Add the rules of bitexts, which are read ahead by a few; `report` hears the pairs done."""
        done = 0
        with ThreadPoolExecutor(self._threads) as pool:
            pending: deque[Future[int]] = deque()
            for bitext in bitexts:
                pending.append(pool.submit(self._add_one, bitext))
                if len(pending) > 2 * self._threads:
                    done += pending.popleft().result()
                    if report:
                        report(done)
            for waiting in pending:
                done += waiting.result()
                if report:
                    report(done)
        for buffer in self._buffers:
            self._spill(buffer)

    def _add_one(self, bitext: Bitext) -> int:
        buffer = self._free.get()
        try:
            pairs = len(bitext.source_offset) - 1
            scratch = make_scratch(bitext, self.limits)
            place = Place()
            while (place := extract(bitext, self.limits, buffer, scratch, place)).pair < pairs:
                self._spill(buffer)
            return pairs
        finally:
            self._free.put(buffer)

    def _spill(self, buffer: RuleBuffer) -> None:
        rows = sorted_rows(buffer.taken, self.shape)
        empty_buffer(buffer)
        with self._writing:
            rows.tofile(self._file)
            self._ends.append(len(rows) + (self._ends[-1] if self._ends else 0))

    def blocks(self) -> Iterator[NDArray[np.uint64]]:
        """The rules as rows, each once, in the order of their symbols."""
        total = self._ends[-1] if self._ends else 0
        if not total:
            return
        self._file.flush()
        rows: NDArray[np.uint64] = np.memmap(self._file, np.uint64, "r", shape=(total, self.shape.width))
        merge = start_merge(rows, np.array(self._ends, np.int64), self.shape)
        while len(block := merge_some(merge, self.shape, RULES_A_BLOCK)):
            yield block
