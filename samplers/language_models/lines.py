"""Parser and writer of ARPA lines, and conversion of tokenized text to word numbers."""

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit, njit_allocating, njit_inline
from hierogram.samplers.language_models.model import BEGIN, END, FREE, UNKNOWN, NGrams
from hierogram.samplers.language_models.vocabulary import Vocabulary, add_word, find_word

AT, LINE, ROWS = 0, 1, 2
"""Indices into a cursor int64[3], which has a byte offset, a line number, and a number of filled rows."""

MORE, ENOUGH, SECTION, NO_ROOM, NO_FIELDS, NO_NUMBER, POSITIVE, NO_WORD, NO_BACKOFF, BACKOFF_TOO_MANY = range(10)
"""Outcomes of reading.

- `MORE`: all complete lines have been read, so the caller must read more text.
- `ENOUGH`: all rows are filled.
- `SECTION`: the line begins with a backslash.
- `NO_ROOM`: the vocabulary is full, so the caller must call `GrowingVocabulary.grow`.
- Errors in a line: `NO_FIELDS`: too few or too many fields. `NO_NUMBER`: the log10 probability is not a number.
  `POSITIVE`: it is positive. `NO_WORD`: a word is not in the vocabulary. `NO_BACKOFF`: the backoff weight is not a
  number. `BACKOFF_TOO_MANY`: an n-gram of the highest order has a backoff weight other than 0.
"""

LOG10_ZERO = -99.0
"""Value in ARPA files for the log10 of probability 0."""

_ROUNDING = 1e-3
"""Larger log10 probabilities are errors. Smaller positive ones are rounding errors of probability 1."""
_TAB, _LINE_FEED, _RETURN, _SPACE, _BACKSLASH = 9, 10, 13, 32, 92
_PLUS, _MINUS, _POINT, _ZERO, _NINE, _E, _LOWER = 43, 45, 46, 48, 57, 101, 32
_MAX_DIGITS = 10**17
_UNKNOWN_SMALL, _UNKNOWN_LARGE = tuple(b"<unk>"), tuple(b"<UNK>")
_DIGITS = 9
"""Maximum number of digits that identify a float32."""
_NUMBER_BYTES = 20
"""Maximum length of a formatted float32, with its separator."""


def make_ngrams(rows: int, order: int) -> NGrams:
    """Allocate `rows` n-grams of an order."""
    return NGrams(np.zeros((rows, order), np.int32), np.zeros(rows, np.float32), np.zeros(rows, np.float32))


@njit_inline
def _is_space(byte):
    return byte in (_SPACE, _TAB, _RETURN)


@njit_inline
def _digits(text, at, end):
    """Parse digits from `at` on. Returns the first 18 as an integer, the number of others, and their end."""
    value, dropped = np.int64(0), np.int64(0)
    while at < end and _ZERO <= text[at] <= _NINE:
        if value < _MAX_DIGITS:
            value = 10 * value + np.int64(text[at] - _ZERO)
        else:
            dropped += 1
        at += 1
    return value, dropped, at


@njit
def parse_number(text, start, end):
    """Parse a decimal number, `LOG10_ZERO` for minus infinity. Returns (number, True if it is valid)."""
    position = start
    negative = position < end and text[position] == _MINUS
    if position < end and (text[position] == _MINUS or text[position] == _PLUS):
        position += 1
    if (
        end - position == 3
        and text[position] | _LOWER == 105
        and text[position + 1] | _LOWER == 110
        and text[position + 2] | _LOWER == 102
    ):
        return LOG10_ZERO, negative
    value, exponent, stop = _digits(text, position, end)
    seen = stop - position
    position = stop
    if position < end and text[position] == _POINT:
        position += 1
        while position < end and _ZERO <= text[position] <= _NINE:
            if value < _MAX_DIGITS:
                value = 10 * value + np.int64(text[position] - _ZERO)
                exponent -= 1
            position += 1
            seen += 1
    if seen == 0:
        return 0.0, False
    if position < end and text[position] | _LOWER == _E:
        position += 1
        below = position < end and text[position] == _MINUS
        if position < end and (text[position] == _MINUS or text[position] == _PLUS):
            position += 1
        power, _, stop = _digits(text, position, end)
        if stop == position or power > 1000:
            return 0.0, False
        position = stop
        exponent += -power if below else power
    # Multiply by two factors, since a single power of ten could underflow.
    value_read = (
        (value * 10.0 ** (exponent / 2)) * 10.0 ** (exponent / 2) if exponent < -300 else value * 10.0**exponent
    )
    return (-value_read if negative else value_read), position == end


@njit_inline
def line_end(text, start):
    """Return the position of the next line feed, or the end of the text."""
    end = start
    while end < len(text) and text[end] != _LINE_FEED:
        end += 1
    return end


@njit_inline
def _next_field(text, at, end):
    """Return the start and end of the next field from `at`. Both are `end` after the last field."""
    while at < end and _is_space(text[at]):
        at += 1
    start = at
    while at < end and not _is_space(text[at]):
        at += 1
    return start, at


@njit_inline
def _is_unknown(text, start, end):
    if end - start != len(_UNKNOWN_SMALL):
        return False
    same = True
    for k in range(len(_UNKNOWN_SMALL)):
        same &= text[start + k] == _UNKNOWN_SMALL[k] or text[start + k] == _UNKNOWN_LARGE[k]
    return same


@njit
def _read_line(text, span, vocabulary, size, rows, row, is_highest):
    """Parse the line `text[span[0] : span[1]]` into a row. Returns `MORE`, `NO_ROOM` or an error."""
    at, end = span
    order = rows.words.shape[1]
    start, at = _next_field(text, at, end)
    log10, is_number = parse_number(text, start, at)
    if not is_number:
        return NO_NUMBER
    if log10 > _ROUNDING:
        return POSITIVE
    for k in range(order):
        start, at = _next_field(text, at, end)
        if start == end:
            return NO_FIELDS
        word = np.int64(UNKNOWN)
        if not _is_unknown(text, start, at):
            if order == 1:
                word = add_word(vocabulary, size, text, start, at)
            else:
                word = np.int64(vocabulary.slots[find_word(vocabulary, text, start, at)])
        if word == FREE:
            return NO_ROOM if order == 1 else NO_WORD
        rows.words[row, k] = word
    backoff, is_number = 0.0, True
    start, at = _next_field(text, at, end)
    if start < end:
        backoff, is_number = parse_number(text, start, at)
        start, at = _next_field(text, at, end)
    if start < end:
        return NO_FIELDS
    if not is_number:
        return NO_BACKOFF
    if is_highest and backoff != 0:
        return BACKOFF_TOO_MANY
    rows.log10[row] = min(log10, 0.0)
    rows.backoff[row] = backoff
    return MORE


@njit
def read_lines(
    text: NDArray[np.uint8],
    cursor: NDArray[np.int64],
    vocabulary: Vocabulary,
    size: NDArray[np.int64],
    rows: NGrams,
    lines: NDArray[np.int64],
    is_highest: bool,
) -> int:
    """Parse n-grams of one order from the cursor on. Returns the outcome.

    Moves the cursor to the first line that has not been parsed. `lines` int64[n] receives the line number of each row.
    Unigrams are added to the vocabulary, which has `size` int64[1] words. Empty lines are skipped. `is_highest` is True
    for the highest order, which has no backoff weights.
    """
    while True:
        start = cursor[AT]
        end = line_end(text, start)
        if end == len(text):
            return MORE
        first, _ = _next_field(text, start, end)
        if first < end:
            if text[first] == _BACKSLASH:
                return SECTION
            if cursor[ROWS] == len(rows.words):
                return ENOUGH
            outcome = int(_read_line(text, (first, end), vocabulary, size, rows, cursor[ROWS], is_highest))
            if outcome != MORE:
                return outcome
            lines[cursor[ROWS]] = cursor[LINE]
            cursor[ROWS] += 1
        cursor[AT] = end + 1
        cursor[LINE] += 1


@njit_inline
def _put_digits(out, at, value, digits):
    """Write an integer with `digits` digits, padded with zeros. Returns the next position."""
    for k in range(digits):
        out[at + digits - 1 - k] = _ZERO + value % 10
        value //= 10
    return at + digits


@njit
def _put_number(out, at, value):
    """Write a float32 with the fewest digits that identify it. Returns the next position."""
    if value == 0:
        out[at] = _ZERO
        return at + 1
    size = abs(np.float64(value))
    if value < 0:
        out[at] = _MINUS
        at += 1
    power = np.int64(np.floor(np.log10(size)))
    for digits in range(1, _DIGITS + 1):
        shift = digits - 1 - power
        whole = np.int64(np.rint(size * 10.0**shift))
        if np.float32(whole / 10.0**shift) == np.float32(size):
            break
    if whole >= 10**digits:
        # Rounding up to a power of ten has added a digit, so drop one.
        whole //= 10
        power += 1
    is_scientific = power < -5 or power >= _DIGITS
    integer_digits = np.int64(1) if is_scientific else power + 1
    decimals = digits - integer_digits
    if decimals <= 0:
        at = _put_digits(out, at, whole * 10**-decimals, integer_digits)
    else:
        at = _put_digits(out, at, whole // 10**decimals, max(integer_digits, 1))
        out[at] = _POINT
        at = _put_digits(out, at + 1, whole % 10**decimals, decimals)
    if is_scientific:
        out[at] = _E
        out[at + 1] = _MINUS if power < 0 else _PLUS
        at = _put_digits(out, at + 2, abs(power), 2)
    return at


@njit
def _write(vocabulary, rows, has_backoff, out):
    at = 0
    for row in range(len(rows.words)):
        at = _put_number(out, at, rows.log10[row])
        out[at] = _TAB
        at += 1
        for k in range(rows.words.shape[1]):
            if k > 0:
                out[at] = _SPACE
                at += 1
            word = rows.words[row, k]
            for letter in range(vocabulary.starts[word], vocabulary.starts[word + 1]):
                out[at] = vocabulary.letters[letter]
                at += 1
        if has_backoff:
            out[at] = _TAB
            at = _put_number(out, at + 1, rows.backoff[row])
        out[at] = _LINE_FEED
        at += 1
    return at


def format_ngrams(vocabulary: Vocabulary, rows: NGrams, has_backoff: bool) -> bytes:
    """Return n-grams as ARPA lines, without headings. `read_lines` reads the same float32 numbers."""
    lengths = np.diff(vocabulary.starts)
    most = int(lengths[rows.words].sum()) + len(rows.words) * (rows.words.shape[1] + 2 * _NUMBER_BYTES)
    out = np.empty(most, np.uint8)
    return out[: _write(vocabulary, rows, has_backoff, out)].tobytes()


SENTENCE_MARK = -1
"""Outcome of `read_words` at a line that contains <s> or </s>."""


@njit
def read_words(
    text: NDArray[np.uint8],
    cursor: NDArray[np.int64],
    vocabulary: Vocabulary,
    size: NDArray[np.int64],
    numbers: NDArray[np.int32],
) -> int:
    """Write the word numbers of complete lines to `numbers`, with END after each nonempty line.

    Adds new words to the vocabulary. Returns `MORE` after the last complete line, or stops before a line: `ENOUGH` if
    `numbers` is full, `NO_ROOM` if the vocabulary is full, `SENTENCE_MARK` if the line contains <s> or </s>. Moves the
    cursor to the first line that has not been converted.
    """
    while True:
        at = cursor[AT]
        end = line_end(text, at)
        if end == len(text):
            return MORE
        filled = cursor[ROWS]
        while True:
            start, at = _next_field(text, at, end)
            if start == end:
                break
            if filled + 1 >= len(numbers):
                return ENOUGH
            number = add_word(vocabulary, size, text, start, at)
            if number == FREE:
                return NO_ROOM
            if number in (BEGIN, END):
                return SENTENCE_MARK
            numbers[filled] = number
            filled += 1
        if filled > cursor[ROWS]:
            numbers[filled] = END
            cursor[ROWS] = filled + 1
        cursor[AT] = end + 1
        cursor[LINE] += 1


@njit_allocating
def ngrams_at(numbers: NDArray[np.int32], order: int) -> NDArray[np.int32]:
    """Return the n-gram that ends at each word, int32[order, n]. BEGIN precedes and END ends a sentence."""
    ngrams = np.empty((order, len(numbers)), np.int32)
    for k in range(len(numbers)):
        inside = True
        ngrams[order - 1, k] = numbers[k]
        for back in range(1, order):
            inside = inside and back <= k and numbers[k - back] != END
            ngrams[order - 1 - back, k] = numbers[k - back] if inside else BEGIN
    return ngrams
