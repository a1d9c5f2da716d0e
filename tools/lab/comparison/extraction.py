"""Hiero's heuristic grammar: all rules that the alignments and limits allow [Chiang 2007 §3.2, §3.3].

An initial phrase is a pair of spans that are linked only to each other. Its rules result from subtracting up to two
smaller initial phrases. Each initial phrase has a mass of 1, which its rules share equally.

Rules are rows in a buffer of bounded size. A full buffer is sorted by the rules' symbols and written to disk. Merging
the sorted runs sums equal rules. All rules with the same source side are then adjacent.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import pairwise
from queue import SimpleQueue
from tempfile import TemporaryFile
from threading import Lock
from types import TracebackType
from typing import NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit, njit_inline
from hierogram.samplers.compiled.probing import capacity_for, probe
from hierogram.samplers.compiled.streams import GOLDEN, mix
from hierogram.samplers.counts.texts import put_decimal, put_nonterminal
from hierogram.samplers.exceptions import SamplerError
from hierogram.samplers.forests.forest import Bitext
from hierogram.samplers.grammar.columns import Blobs
from hierogram.samplers.grammar.rules import HIERO_MAX_SOURCE_SYMBOLS

PHRASE_WORDS = 10
"""Maximum number of words of an initial phrase on either side [Chiang 2007]."""
MASS_UNIT = 1 << 32
"""Mass of one initial phrase. It is an integer, so that sums do not depend on the order of additions."""
FIRST_NONTERMINAL, SECOND_NONTERMINAL, FIRST_WORD = 1, 2, 3
"""Symbols of a row: 0 is padding, FIRST_WORD + w is word number w."""

_HASH_BITS = np.uint64(0xFFFFFFFF00000000)
_ENTRY_BITS = np.uint64(0xFFFFFFFF)
_HALF = np.uint64(32)
_EMPTY = np.uint64(0)
_NONE = -1


class ExtractionError(SamplerError, ValueError):
    """The buffer is too small for the rules of one phrase."""


class ExtractionLimits(NamedTuple):
    """Maximum numbers of words on each side of an initial phrase, and of symbols of a rule's source side."""

    phrase_words: int = PHRASE_WORDS
    source_symbols: int = HIERO_MAX_SOURCE_SYMBOLS


class RowShape(NamedTuple):
    """Layout of a rule in a row of uint64 columns: packed symbols, two per column, then two numbers.

    The symbols of the source side are in the first `source_width` columns, all symbols in the first `symbol_width`.
    `occurrences` and `mass` are the columns of the number of extractions, and of their mass in units of 1/`MASS_UNIT`.
    """

    source_width: int
    symbol_width: int
    occurrences: int
    mass: int
    width: int


def row_shape(limits: ExtractionLimits) -> RowShape:
    """Return the layout of the rules that the limits allow."""
    source = (limits.source_symbols + 1) // 2
    symbols = source + (limits.phrase_words + 1) // 2
    return RowShape(source, symbols, symbols, symbols + 1, symbols + 2)


class RuleBuffer(NamedTuple):
    """Distinct rules: `rows` uint64[capacity, width], and a hash table of the rows, `slots`.

    A slot is 0, or contains half of a hash and a row number plus one. `sizes` int64[1] is the number of used rows.
    """

    slots: NDArray[np.uint64]
    rows: NDArray[np.uint64]
    sizes: NDArray[np.int64]

    @property
    def used_rows(self) -> NDArray[np.uint64]:
        """Used rows, in the order in which the rules were added."""
        return self.rows[: int(self.sizes[0])]


class SentencePair(NamedTuple):
    """Word numbers of a sentence pair, without `FIRST_WORD` added."""

    source: NDArray[np.int32]
    target: NDArray[np.int32]


class ExtractionScratch(NamedTuple):
    """Scratch memory for one pair."""

    # int16[4, words of the longer side]: lowest and highest link partner of each source word, and of each target word.
    # The highest partner of an unaligned word is -1.
    reach: NDArray[np.int16]
    # int16[n+1] for n source words: number of aligned source words before each source word.
    aligned: NDArray[np.int16]
    # int16[m, 4], int32[n+2]: initial phrases (half-open source and target spans, sorted by source start), and the
    # first phrase of each source start.
    phrases: NDArray[np.int16]
    first: NDArray[np.int32]
    # int32[m]: rows of `phrases` that are inside the current phrase.
    inside: NDArray[np.int32]
    # uint64[symbol_width]: packed symbols of the current rule.
    packed: NDArray[np.uint64]


def make_buffer(limits: ExtractionLimits, capacity: int) -> RuleBuffer:
    """Return an empty buffer for `capacity` rules."""
    slots = capacity_for(capacity, 1 << 4)
    return RuleBuffer(
        np.zeros(slots, np.uint64), np.zeros((capacity, row_shape(limits).width), np.uint64), np.zeros(1, np.int64)
    )


def empty_buffer(buffer: RuleBuffer) -> None:
    """Remove all rules, and keep the memory."""
    buffer.slots[:] = 0
    buffer.sizes[0] = 0


def make_scratch(bitext: Bitext, limits: ExtractionLimits) -> ExtractionScratch:
    """Return scratch memory that is large enough for every pair of a bitext."""
    source = int(np.diff(bitext.source_offset).max(initial=1))
    target = int(np.diff(bitext.target_offset).max(initial=1))
    max_phrases = limits.phrase_words * source
    return ExtractionScratch(
        np.zeros((4, max(source, target)), np.int16),
        np.zeros(source + 1, np.int16),
        np.zeros((max_phrases, 4), np.int16),
        np.zeros(source + 2, np.int32),
        np.zeros(max_phrases, np.int32),
        np.zeros(row_shape(limits).symbol_width, np.uint64),
    )


@njit
def _read_links(bitext, pair, scratch):
    """Fill `reach` and `aligned` for a pair. Returns the number of source words."""
    words = bitext.source_offset[pair + 1] - bitext.source_offset[pair]
    target_words = bitext.target_offset[pair + 1] - bitext.target_offset[pair]
    reach = scratch.reach
    reach[0, :words] = 0x7FFF
    reach[1, :words] = _NONE
    reach[2, :target_words] = 0x7FFF
    reach[3, :target_words] = _NONE
    for k in range(bitext.link_offset[pair], bitext.link_offset[pair + 1]):
        s = bitext.link_source[k]
        t = bitext.link_target[k]
        reach[0, s] = min(reach[0, s], t)
        reach[1, s] = max(reach[1, s], t)
        reach[2, t] = min(reach[2, t], s)
        reach[3, t] = max(reach[3, t], s)
    scratch.aligned[0] = 0
    for s in range(words):
        scratch.aligned[s + 1] = scratch.aligned[s] + (1 if reach[1, s] >= 0 else 0)
    return words


@njit
def _initial_phrases(bitext, pair, limits, scratch):
    """Fill `phrases` and `first` with the initial phrases of a pair. Returns the number of phrases.

    A phrase begins and ends with aligned words, so that a set of links yields only one phrase [Chiang 2007].
    """
    words = _read_links(bitext, pair, scratch)
    reach = scratch.reach
    longest = limits.phrase_words
    count = 0
    for i in range(words):
        scratch.first[i] = count
        if reach[1, i] < 0:
            continue
        low = np.int64(0x7FFF)
        high = np.int64(_NONE)
        for j in range(i, min(words, i + longest)):
            low = min(low, np.int64(reach[0, j]))
            high = max(high, np.int64(reach[1, j]))
            if high - low >= longest:
                break
            if reach[1, j] < 0:
                continue
            back_low = np.int64(i)
            back_high = np.int64(j)
            for t in range(low, high + 1):
                if reach[3, t] >= 0:
                    back_low = min(back_low, np.int64(reach[2, t]))
                    back_high = max(back_high, np.int64(reach[3, t]))
            if back_low < i:
                # All longer spans from i also contain this link to an earlier word.
                break
            if back_high > j:
                continue
            scratch.phrases[count, 0] = i
            scratch.phrases[count, 1] = j + 1
            scratch.phrases[count, 2] = low
            scratch.phrases[count, 3] = high + 1
            count += 1
    scratch.first[words] = count
    return count


@njit
def _phrases_inside(scratch, phrase):
    """Fill `inside` with the smaller initial phrases inside a phrase. Returns their number."""
    phrases = scratch.phrases
    i, j = phrases[phrase, 0], phrases[phrase, 1]
    low, high = phrases[phrase, 2], phrases[phrase, 3]
    count = 0
    for q in range(scratch.first[i], scratch.first[j]):
        if q != phrase and phrases[q, 1] <= j and low <= phrases[q, 2] and phrases[q, 3] <= high:
            scratch.inside[count] = q
            count += 1
    return count


@njit_inline
def _fits(scratch, limits, phrase, first_hole, second_hole):
    """Check if a phrase minus its holes is a rule within limits. Holes are in source order or `_NONE`."""
    phrases = scratch.phrases
    symbols = np.int64(phrases[phrase, 1]) - phrases[phrase, 0]
    aligned = np.int64(scratch.aligned[phrases[phrase, 1]]) - scratch.aligned[phrases[phrase, 0]]
    if first_hole >= 0:
        symbols -= np.int64(phrases[first_hole, 1]) - phrases[first_hole, 0] - 1
        aligned -= np.int64(scratch.aligned[phrases[first_hole, 1]]) - scratch.aligned[phrases[first_hole, 0]]
    if second_hole >= 0:
        symbols -= np.int64(phrases[second_hole, 1]) - phrases[second_hole, 0] - 1
        aligned -= np.int64(scratch.aligned[phrases[second_hole, 1]]) - scratch.aligned[phrases[second_hole, 0]]
        if phrases[second_hole, 0] <= phrases[first_hole, 1]:
            return False
        if phrases[first_hole, 2] < phrases[second_hole, 3] and phrases[second_hole, 2] < phrases[first_hole, 3]:
            return False
    return symbols <= limits.source_symbols and aligned > 0


@njit_inline
def _span(phrases, phrase, column):
    """Return the source span (`column` 0) or target span (`column` 2) of a phrase.

    The span of `_NONE` is before all words.
    """
    if phrase < 0:
        return np.int64(_NONE), np.int64(_NONE)
    return np.int64(phrases[phrase, column]), np.int64(phrases[phrase, column + 1])


@njit_inline
def _pack_side(packed, first, words, span, first_hole, second_hole):
    """Pack one side of a rule into `packed` from column `first`: the words of a span with up to two gaps."""
    symbol_index = 0
    position = span[0]
    while position < span[1]:
        if position == first_hole[0]:
            symbol = np.uint64(FIRST_NONTERMINAL)
            position = first_hole[1]
        elif position == second_hole[0]:
            symbol = np.uint64(SECOND_NONTERMINAL)
            position = second_hole[1]
        else:
            symbol = np.uint64(FIRST_WORD + words[position])
            position += 1
        if symbol_index & 1:
            packed[first + (symbol_index >> 1)] |= symbol
        else:
            packed[first + (symbol_index >> 1)] = symbol << _HALF
        symbol_index += 1


@njit_inline
def _ends_at(buffer, slot, key):
    """Check if a slot is free or contains the rule with this key: hash, packed symbols, number of columns."""
    value = buffer.slots[slot]
    if value == _EMPTY:
        return True
    if value & _HASH_BITS != key[0] & _HASH_BITS:
        return False
    entry = np.int64(value & _ENTRY_BITS) - 1
    is_same = True
    for k in range(key[2]):
        is_same &= buffer.rows[entry, k] == key[1][k]
    return is_same


@njit
def _add_rule(buffer, scratch, shape, sentences, phrase, first_hole, second_hole, mass):
    """Add an occurrence of a rule, a phrase minus up to two holes. The buffer must have room."""
    packed = scratch.packed
    packed[:] = 0
    phrases = scratch.phrases
    gaps = _span(phrases, first_hole, 0), _span(phrases, second_hole, 0)
    _pack_side(packed, 0, sentences.source, _span(phrases, phrase, 0), gaps[0], gaps[1])
    gaps = _span(phrases, first_hole, 2), _span(phrases, second_hole, 2)
    _pack_side(packed, shape.source_width, sentences.target, _span(phrases, phrase, 2), gaps[0], gaps[1])
    code = np.uint64(0)
    for k in range(shape.symbol_width):
        code = mix(code + packed[k] + GOLDEN)
    mask = np.uint64(len(buffer.slots) - 1)
    slot = probe(code & mask, mask, _ends_at, buffer, (code, packed, shape.symbol_width))
    if buffer.slots[slot] == _EMPTY:
        entry = buffer.sizes[0]
        buffer.sizes[0] = entry + 1
        buffer.slots[slot] = (code & _HASH_BITS) | np.uint64(entry + 1)
        for k in range(shape.symbol_width):
            buffer.rows[entry, k] = packed[k]
        buffer.rows[entry, shape.occurrences] = np.uint64(0)
        buffer.rows[entry, shape.mass] = np.uint64(0)
    entry = np.int64(buffer.slots[slot] & _ENTRY_BITS) - 1
    buffer.rows[entry, shape.occurrences] += np.uint64(1)
    buffer.rows[entry, shape.mass] += np.uint64(mass)


@njit
def _count_rules(scratch, limits, phrase, inside):
    number = np.int64(_fits(scratch, limits, phrase, _NONE, _NONE))
    for a in range(inside):
        hole = np.int64(scratch.inside[a])
        number += np.int64(_fits(scratch, limits, phrase, hole, _NONE))
        for b in range(a + 1, inside):
            number += np.int64(_fits(scratch, limits, phrase, hole, np.int64(scratch.inside[b])))
    return number


@njit
def _add_rules(buffer, scratch, limits, shape, sentences, phrase, inside, mass):
    if _fits(scratch, limits, phrase, _NONE, _NONE):
        _add_rule(buffer, scratch, shape, sentences, phrase, _NONE, _NONE, mass)
    for a in range(inside):
        first_hole = np.int64(scratch.inside[a])
        if _fits(scratch, limits, phrase, first_hole, _NONE):
            _add_rule(buffer, scratch, shape, sentences, phrase, first_hole, _NONE, mass)
        for b in range(a + 1, inside):
            second_hole = np.int64(scratch.inside[b])
            if _fits(scratch, limits, phrase, first_hole, second_hole):
                _add_rule(buffer, scratch, shape, sentences, phrase, first_hole, second_hole, mass)


@njit
def _extract(bitext, limits, shape, buffer, scratch, pair, phrase, last):
    """Add rules from `phrase` of `pair` to pair `last` - 1, or until the buffer might overflow.

    Returns the next pair and phrase.
    """
    while pair < last:
        phrases = _initial_phrases(bitext, pair, limits, scratch)
        sentences = SentencePair(
            bitext.source[bitext.source_offset[pair] : bitext.source_offset[pair + 1]],
            bitext.target[bitext.target_offset[pair] : bitext.target_offset[pair + 1]],
        )
        while phrase < phrases:
            inside = _phrases_inside(scratch, phrase)
            rules = _count_rules(scratch, limits, phrase, inside)
            if rules > 0:
                if buffer.sizes[0] + rules > len(buffer.rows):
                    return pair, phrase
                _add_rules(buffer, scratch, limits, shape, sentences, phrase, inside, (MASS_UNIT + rules // 2) // rules)
            phrase += 1
        phrase = 0
        pair += 1
    return pair, phrase


class RulePosition(NamedTuple):
    """Position at which an extraction continues: a pair of the bitext, and an initial phrase of the pair."""

    pair: int = 0
    phrase: int = 0


def extract(
    bitext: Bitext, limits: ExtractionLimits, buffer: RuleBuffer, scratch: ExtractionScratch, position: RulePosition
) -> RulePosition:
    """Add rules to the buffer, beginning at a position. Returns the next position.

    Stops if the buffer has no room for the rules of the next phrase. Raises `ExtractionError` if an empty buffer has no
    room for them.
    """
    last = len(bitext.source_offset) - 1
    after = RulePosition(
        *_extract(bitext, limits, row_shape(limits), buffer, scratch, position.pair, position.phrase, last)
    )
    if after == position and position.pair < last and not buffer.sizes[0]:
        raise ExtractionError(
            f"a phrase of pair {position.pair + 1} of the batch has more than {len(buffer.rows)} rules, "
            "the size of the buffer: use a larger buffer or shorter phrases"
        )
    return after


RULES_PER_BUFFER = 1 << 20
RULES_PER_BLOCK = 1 << 16
_SYMBOL = np.uint64(0xFFFFFFFF)
_DECIMALS = 10_000
"""Power of ten of the four decimals of a mass."""
_MAX_NOTATION_BYTES = 16
"""Upper bound on the bytes of a nonterminal, a bar or a count."""


def merge_rows(rows: NDArray[np.uint64], shape: RowShape) -> NDArray[np.uint64]:
    """Return the distinct rules, sorted by their symbols. Sums occurrences and masses of equal rules."""
    symbols = shape.symbol_width
    rows = rows[np.lexsort(rows[:, symbols - 1 :: -1].T)]
    is_new = np.ones(len(rows), np.bool_)
    is_new[1:] = (rows[1:, :symbols] != rows[:-1, :symbols]).any(axis=1)
    merged = rows[is_new]
    if len(rows):
        merged[:, symbols:] = np.add.reduceat(rows[:, symbols:], np.flatnonzero(is_new))
    return merged


def merge_runs(
    runs: Sequence[NDArray[np.uint64]], shape: RowShape, rules_per_block: int = RULES_PER_BLOCK
) -> Iterator[NDArray[np.uint64]]:
    """Merge runs from `merge_rows`, and yield blocks of distinct rules in the order of their symbols.

    Rules that begin with the same two symbols are in the same block.
    """
    runs = [run for run in runs if len(run)]
    step = max(1, rules_per_block // max(len(runs), 1))
    sampled = np.sort(np.concatenate([np.zeros(0, np.uint64), *(run[::step, 0] for run in runs)]))
    starts = [np.append(np.searchsorted(run[:, 0], np.unique(sampled[:: len(runs) or 1])), len(run)) for run in runs]
    for parts in zip(*(pairwise(run_starts.tolist()) for run_starts in starts), strict=True):
        yield merge_rows(np.concatenate([run[a:b] for run, (a, b) in zip(runs, parts, strict=True)]), shape)


@njit_inline
def symbol_at(row, first, position):
    """Return the symbol at a position, counted from 0, of the side that begins at column `first` of a row."""
    packed = row[first + (position >> 1)]
    return np.int64(packed & _SYMBOL) if position & 1 else np.int64(packed >> _HALF)


class SourceSides(NamedTuple):
    """Source sides of n rules: `symbols` (word numbers, -k for nonterminal k) and `starts` int64[n+1]."""

    symbols: NDArray[np.int32]
    starts: NDArray[np.int64]


@njit
def _read_sides(rows, source_width, symbols, starts, scopes, terminals):
    """Fill the results of `read_sources`. Returns the number of symbols."""
    count = 0
    for k in range(len(rows)):
        starts[k] = count
        for position in range(2 * source_width):
            symbol = symbol_at(rows[k], 0, position)
            if symbol == 0:
                break
            symbols[count] = symbol - FIRST_WORD if symbol >= FIRST_WORD else -symbol
            count += 1
        scope, words = scope_and_words(symbols, starts[k], count)
        scopes[k] = scope
        terminals[k] = words
    starts[len(rows)] = count
    return count


@njit_inline
def scope_and_words(symbols, start, end):
    """Return scope [Hopkins & Langmead 2010] and number of words of the side `symbols[start:end]`.

    Nonterminals are below 0.
    """
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
    """Return the source sides of n rules, their scopes int32[n], and numbers of source words int32[n]."""
    symbols = np.empty(2 * shape.source_width * len(rows), np.int32)
    starts = np.empty(len(rows) + 1, np.int64)
    scopes, terminals = np.empty((2, len(rows)), np.int32)
    count = _read_sides(rows, shape.source_width, symbols, starts, scopes, terminals)
    return SourceSides(symbols[:count], starts), scopes, terminals


@njit
def _put_text(buffer, position, row, first, symbols, spelling):
    """Write a side that begins at column `first`, and ` ||| `. Returns the position after it."""
    for index in range(symbols):
        symbol = symbol_at(row, first, index)
        if symbol == 0:
            break
        if symbol >= FIRST_WORD:
            for c in range(spelling.offsets[symbol - FIRST_WORD], spelling.offsets[symbol - FIRST_WORD + 1]):
                buffer[position] = spelling.content[c]
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
        position = _put_text(buffer, position, row, 0, 2 * shape.source_width, source)
        symbols = 2 * (shape.symbol_width - shape.source_width)
        position = _put_text(buffer, position, row, shape.source_width, symbols, target)
        # Format the mass by hand with up to four decimals, because compiled code cannot format floats.
        uses = np.int64(row[shape.mass]) // MASS_UNIT
        decimals = (np.int64(row[shape.mass]) % MASS_UNIT * _DECIMALS + MASS_UNIT // 2) // MASS_UNIT
        if decimals == _DECIMALS:
            uses += 1
            decimals = 0
        position = put_decimal(buffer, position, uses)
        if decimals > 0:
            buffer[position] = 46
            position += 1
            unit = _DECIMALS // 10
            while decimals > 0:
                buffer[position] = 48 + decimals // unit
                position += 1
                decimals %= unit
                unit //= 10
        buffer[position] = 10
        position += 1
    return position


def rule_lines(rows: NDArray[np.uint64], shape: RowShape, source: Blobs, target: Blobs) -> bytes:
    """Return rows as UTF-8 lines `source ||| target ||| mass`. Masses have up to four decimals."""
    longest = max(_MAX_NOTATION_BYTES, *(int(np.diff(side.offsets).max(initial=0)) for side in (source, target)))
    buffer = np.empty(len(rows) * (2 * shape.symbol_width + 3) * (longest + 1), np.uint8)
    return buffer[: _put_lines(rows, shape, source, target, buffer)].tobytes()


class HeuristicGrammar:
    """Rules of all added bitexts in a temporary file, which the context manager deletes.

    Each of `threads` threads has up to `rules_per_buffer` rules in memory. Call `blocks` after all calls of `add`.
    """

    def __init__(
        self, limits: ExtractionLimits | None = None, threads: int = 2, rules_per_buffer: int = RULES_PER_BUFFER
    ) -> None:
        self.limits = limits or ExtractionLimits()
        self.shape = row_shape(self.limits)
        self._threads = threads
        self._free: SimpleQueue[RuleBuffer] = SimpleQueue()
        self._buffers = [make_buffer(self.limits, rules_per_buffer) for _ in range(threads)]
        for buffer in self._buffers:
            self._free.put(buffer)
        self._file = TemporaryFile(prefix="hierogram-rules-")  # noqa: SIM115 closed by __exit__
        self._ends: list[int] = []
        self._writing = Lock()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def add(self, bitexts: Iterable[Bitext], report: Callable[[int], None] = lambda _: None) -> None:
        """Add the rules of bitexts, and call `report` with the number of pairs done.

        Raises `ExtractionError` if a phrase has more rules than a buffer.
        """
        done = 0
        with ThreadPoolExecutor(self._threads) as pool:
            pending: deque[Future[int]] = deque()
            for bitext in bitexts:
                pending.append(pool.submit(self._add_one, bitext))
                if len(pending) > 2 * self._threads:
                    done += pending.popleft().result()
                    report(done)
            for waiting in pending:
                done += waiting.result()
                report(done)
        for buffer in self._buffers:
            self._spill(buffer)

    def _add_one(self, bitext: Bitext) -> int:
        buffer = self._free.get()
        try:
            pairs = len(bitext.source_offset) - 1
            scratch = make_scratch(bitext, self.limits)
            position = RulePosition()
            while (position := extract(bitext, self.limits, buffer, scratch, position)).pair < pairs:
                self._spill(buffer)
            return pairs
        finally:
            self._free.put(buffer)

    def _spill(self, buffer: RuleBuffer) -> None:
        """Write the rules of a buffer to the file as a sorted run, and empty the buffer."""
        rows = merge_rows(buffer.used_rows, self.shape)
        empty_buffer(buffer)
        with self._writing:
            rows.tofile(self._file)
            self._ends.append(len(rows) + (self._ends[-1] if self._ends else 0))

    def blocks(self) -> Iterator[NDArray[np.uint64]]:
        """Yield blocks of rows: the distinct rules in the order of their symbols, the same in each call."""
        total = self._ends[-1] if self._ends else 0
        if total:
            self._file.flush()
            rows: NDArray[np.uint64] = np.memmap(self._file, np.uint64, "r", shape=(total, self.shape.width))
            yield from merge_runs(np.split(rows, self._ends[:-1]), self.shape)
