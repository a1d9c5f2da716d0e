"""Parser of rule tables, from lines of bytes to columns of symbols, links and values.

`read_rules` numbers words, nonterminals and feature names in order of appearance. The caller interprets each string
once, and maps the numbers to symbols by `RuleLines.columns`. Then `number_gaps` numbers the nonterminals of each rule.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.compiled.jit import njit, njit_inline
from hierogram.samplers.decoding.grammar import RuleColumns
from hierogram.samplers.language_models.lines import line_end, parse_number
from hierogram.samplers.language_models.model import FREE
from hierogram.samplers.language_models.vocabulary import Vocabulary, add_word

MORE, NO_ROOM, NO_VOCABULARY, NO_FIELDS, NO_NUMBER, NO_NAME, NO_LINK = range(7)
"""Outcomes of reading.

- `MORE`: all complete lines have been read, so the caller must read more text.
- `NO_ROOM`: the columns are full, so the caller must call `make_lines` with the old ones.
- `NO_VOCABULARY`: a vocabulary is full, so the caller must call `GrowingVocabulary.grow`.
- Errors in a line: `NO_FIELDS`: a field is missing. `NO_NUMBER`: a value is not a number. `NO_NAME`: a value has no
  name. `NO_LINK`: a link is invalid.
"""

AT, LINE = 0, 1
"""Indices into a cursor int64[2]. `AT` is the byte offset, `LINE` the line number."""

_RULES, _SOURCE, _TARGET, _LINKS, _VALUES = range(5)
_TAB, _LINE_FEED, _RETURN, _SPACE, _BAR, _MINUS, _ZERO, _NINE, _EQUALS = 9, 10, 13, 32, 124, 45, 48, 57, 61
_FIELDS = 8
_MAX_POSITION = 1 << 16


class Layout(NamedTuple):
    """Fields of a line in a rule table. Fields are numbered from 0."""

    # True if fields are separated by tabs instead of bars.
    tabs: bool
    # Field of the source side. If it is 1, field 0 has the left-hand side, which identifies glue rules.
    source: int
    target: int
    values: int
    links: int
    # True if values have names, such as `name=0.5`.
    named: bool
    # True if each side ends with the label of the left-hand side, as in Moses tables.
    labeled: bool


class Vocabularies(NamedTuple):
    """Vocabularies of source symbols, target symbols and value names, and the size of each, int64[1]."""

    source: Vocabulary
    source_size: NDArray[np.int64]
    target: Vocabulary
    target_size: NDArray[np.int64]
    names: Vocabulary
    names_size: NDArray[np.int64]


class RuleLines(NamedTuple):
    """Rules read from lines. Sides and links are as in `RuleColumns`, with vocabulary numbers as symbols.

    Value k belongs to rule `value_rule[k]`. `value_name[k]` is the number of its name, or its position among the values
    of the line if values have no names. `line` int64[R] has line numbers. `fields` int64[8, 2] is scratch memory for
    the start and end of each field. `used` int64[5] has the numbers of rules, source symbols, target symbols, links
    and values in use.
    """

    source: NDArray[np.int32]
    source_start: NDArray[np.int64]
    target: NDArray[np.int32]
    target_start: NDArray[np.int64]
    links: NDArray[np.uint16]
    link_start: NDArray[np.int64]
    value: NDArray[np.float64]
    value_rule: NDArray[np.int32]
    value_name: NDArray[np.int32]
    line: NDArray[np.int64]
    fields: NDArray[np.int64]
    used: NDArray[np.int64]

    @property
    def rules(self) -> int:
        """Number of rules."""
        return int(self.used[_RULES])

    @property
    def values(self) -> int:
        """Number of values."""
        return int(self.used[_VALUES])

    def columns(
        self, source: NDArray[np.int32], target: NDArray[np.int32], features: NDArray[np.float64]
    ) -> RuleColumns:
        """Return the rules as columns. `source` and `target`, int32, map vocabulary numbers to symbols."""
        return RuleColumns(
            source[self.source[: self.used[_SOURCE]]],
            self.source_start[: self.rules + 1],
            target[self.target[: self.used[_TARGET]]],
            self.target_start[: self.rules + 1],
            self.links[: self.used[_LINKS]],
            self.link_start[: self.rules + 1],
            features,
        )


def make_lines(rules: int, old: RuleLines | None = None) -> RuleLines:
    """Allocate memory for up to `rules` rules of usual length, and copy the rules of `old` into it."""
    sizes = (rules, 6 * rules + 4096, 6 * rules + 4096, 4 * rules + 4096, 9 * rules + 4096)
    made = RuleLines(
        np.empty(sizes[_SOURCE], np.int32),
        np.zeros(rules + 1, np.int64),
        np.empty(sizes[_TARGET], np.int32),
        np.zeros(rules + 1, np.int64),
        np.empty((sizes[_LINKS], 2), np.uint16),
        np.zeros(rules + 1, np.int64),
        np.empty(sizes[_VALUES], np.float64),
        np.empty(sizes[_VALUES], np.int32),
        np.empty(sizes[_VALUES], np.int32),
        np.empty(rules, np.int64),
        np.zeros((_FIELDS, 2), np.int64),
        np.zeros(5, np.int64),
    )
    if old is not None:
        pairs: list[tuple[NDArray[np.generic], NDArray[np.generic]]] = list(zip(made, old, strict=True))
        for new, before in pairs:
            new[: len(before)] = before
    return made


@njit_inline
def _separator(text, position, end, tabs):
    """Return the length of the separator at `position`, or 0. Bars need spaces or line ends around them."""
    if tabs:
        return 1 if text[position] == _TAB else 0
    if position + 3 > end or text[position] != _BAR or text[position + 1] != _BAR or text[position + 2] != _BAR:
        return 0
    if position > 0 and text[position - 1] != _SPACE and text[position - 1] != _LINE_FEED:
        return 0
    return 3 if position + 3 == end or text[position + 3] == _SPACE else 0


@njit
def _split_fields(text, start, end, rules, tabs):
    """Split a line into up to 8 `fields`, and ignore the rest. Returns the number of fields."""
    fields = 0
    position = start
    rules.fields[0, 0] = start
    while position < end:
        length = _separator(text, position, end, tabs)
        if length == 0:
            position += 1
            continue
        rules.fields[fields, 1] = position
        position += length
        fields += 1
        if fields == _FIELDS:
            return fields
        rules.fields[fields, 0] = position
    rules.fields[fields, 1] = end
    return fields + 1


@njit_inline
def _next_token(text, position, end):
    """Return the start and end of the next token from `position`. Both are `end` if no token follows."""
    while position < end and text[position] == _SPACE:
        position += 1
    start = position
    while position < end and text[position] != _SPACE:
        position += 1
    return start, position


@njit
def _read_side(text, field, vocabulary, size, symbols, first_symbol, layout):
    """Read a side. Returns its number of symbols, -1 if `symbols` is full, -2 if the vocabulary is full."""
    count = 0
    position = field[0]
    while True:
        start, position = _next_token(text, position, field[1])
        if start == position:
            break
        if layout.labeled and _next_token(text, position, field[1])[0] == field[1]:
            break
        if first_symbol + count == len(symbols):
            return -1
        word = add_word(vocabulary, size, text, start, position)
        if word == FREE:
            return -2
        symbols[first_symbol + count] = word
        count += 1
    return count


@njit_inline
def _parse_position(text, start, end):
    """Return the integer `text[start:end]`, or -1 if it is not a position below `_MAX_POSITION`."""
    if start == end or end - start > 5:
        return np.int64(-1)
    value = np.int64(0)
    for k in range(start, end):
        if text[k] < _ZERO or text[k] > _NINE:
            return np.int64(-1)
        value = 10 * value + np.int64(text[k] - _ZERO)
    return value if value < _MAX_POSITION else np.int64(-1)


@njit
def _read_links(text, field, rules, first_link):
    """Read links such as `0-1`. Returns their number, -1 if `rules` is full, or -2 for an invalid link."""
    count = 0
    position = field[0]
    while True:
        start, position = _next_token(text, position, field[1])
        if start == position:
            return count
        if first_link + count == len(rules.links):
            return -1
        middle = start
        while middle < position and text[middle] != _MINUS:
            middle += 1
        if middle == position:
            return -2
        source, target = _parse_position(text, start, middle), _parse_position(text, middle + 1, position)
        if source < 0 or target < 0:
            return -2
        rules.links[first_link + count, 0], rules.links[first_link + count, 1] = source, target
        count += 1


@njit
def _read_values(text, field, rules, vocabularies, named):
    """Read the values of the current rule. Returns 0, or the outcome that stops reading."""
    rule, value_row = rules.used[_RULES], rules.used[_VALUES]
    position = field[0]
    column = 0
    while True:
        start, position = _next_token(text, position, field[1])
        if start == position:
            rules.used[_VALUES] = value_row
            return 0
        if value_row == len(rules.value):
            return NO_ROOM
        name = np.int64(column)
        if named:
            middle = position - 1
            while middle > start and text[middle] != _EQUALS:
                middle -= 1
            if middle <= start:
                return NO_NAME
            name = add_word(vocabularies.names, vocabularies.names_size, text, start, middle)
            if name == FREE:
                return NO_VOCABULARY
            start = middle + 1
        value, is_number = parse_number(text, start, position)
        if not is_number:
            return NO_NUMBER
        rules.value[value_row] = value
        rules.value_rule[value_row] = rule
        rules.value_name[value_row] = name
        value_row += 1
        column += 1


@njit_inline
def _is_glue(text, start, end):
    """Check if a left-hand side belongs to a glue rule: [S] or [GOAL]."""
    if end - start == 3:
        return text[start + 1] == 83
    return end - start == 6 and text[start + 1] == 71 and text[start + 2] == 79


@njit
def _read_rule(text, rules, layout, vocabularies, field_count):
    """Read a rule from `rules.fields`. Returns 0, or the outcome that stops reading without a new rule."""
    used, fields = rules.used, rules.fields
    rule = used[_RULES]
    if field_count <= max(layout.source, layout.target, layout.values):
        return NO_FIELDS
    if rule == len(rules.line):
        return NO_ROOM
    source = _read_side(
        text, fields[layout.source], vocabularies.source, vocabularies.source_size, rules.source, used[_SOURCE], layout
    )
    if source < 0:
        return NO_ROOM if source == -1 else NO_VOCABULARY
    target = _read_side(
        text, fields[layout.target], vocabularies.target, vocabularies.target_size, rules.target, used[_TARGET], layout
    )
    if target < 0:
        return NO_ROOM if target == -1 else NO_VOCABULARY
    links = 0
    if layout.links < field_count:
        links = _read_links(text, fields[layout.links], rules, used[_LINKS])
        if links < 0:
            return NO_ROOM if links == -1 else NO_LINK
    outcome = _read_values(text, fields[layout.values], rules, vocabularies, layout.named)
    if outcome != 0:
        return outcome
    used[_RULES] += 1
    used[_SOURCE] += source
    used[_TARGET] += target
    used[_LINKS] += links
    rules.source_start[rule + 1] = used[_SOURCE]
    rules.target_start[rule + 1] = used[_TARGET]
    rules.link_start[rule + 1] = used[_LINKS]
    return 0


@njit
def read_rules(
    text: NDArray[np.uint8], cursor: NDArray[np.int64], layout: Layout, vocabularies: Vocabularies, rules: RuleLines
) -> int:
    """Read rules except glue rules. Returns the outcome. Moves the cursor to the first unread line."""
    while True:
        start = cursor[AT]
        end = line_end(text, start)
        if end == len(text):
            return MORE
        last = end
        if last > start and text[last - 1] == _RETURN:
            last -= 1
        fields = _split_fields(text, start, last, rules, layout.tabs)
        empty = fields == 1 and rules.fields[0, 1] == rules.fields[0, 0]
        glue = layout.source == 1 and _is_glue(text, *_next_token(text, rules.fields[0, 0], rules.fields[0, 1]))
        if not empty and not glue:
            outcome = int(_read_rule(text, rules, layout, vocabularies, fields))
            if outcome != 0:
                return outcome
            rules.line[rules.used[_RULES] - 1] = cursor[LINE]
        cursor[AT] = end + 1
        cursor[LINE] += 1


UNNUMBERED = 1 << 7
"""Number of all nonterminals without an index. A link connects the matching ones of both sides."""

_MAX_GAPS = 64
_LINKED = 1 << 29


@njit
def _number_gaps(columns, numbers):
    """Assign nonterminal numbers in source order. Returns the first rule with invalid nonterminals, or -1."""
    for rule in range(len(columns.source_start) - 1):
        source = columns.source[columns.source_start[rule] : columns.source_start[rule + 1]]
        target = columns.target[columns.target_start[rule] : columns.target_start[rule + 1]]
        gaps = 0
        for k in range(len(source)):
            if source[k] < 0:
                if gaps == _MAX_GAPS:
                    return rule
                numbers[gaps] = -np.int64(source[k])
                if numbers[gaps] == UNNUMBERED:
                    for link in range(columns.link_start[rule], columns.link_start[rule + 1]):
                        other = columns.links[link, 1]
                        if columns.links[link, 0] == k and other < len(target) and target[other] == source[k]:
                            target[other] = -(gaps + 1) - _LINKED
                gaps += 1
                source[k] = -gaps
        filled = 0
        for k in range(len(target)):
            if target[k] >= 0:
                continue
            gap = np.int64(-1)
            if target[k] < -_LINKED:
                gap = -np.int64(target[k]) - _LINKED - 1
            else:
                number = -np.int64(target[k])
                for other in range(gaps):
                    if numbers[other] == number != UNNUMBERED:
                        gap = np.int64(other)
            if gap < 0 or gap >= gaps or (filled >> gap) & 1:
                return rule
            filled |= np.int64(1) << gap
            target[k] = -(gap + 1)
        if filled != (np.int64(1) << gaps) - 1:
            return rule
    return -1


@njit
def _keep_word_links(columns, start):
    """Remove the links of nonterminals. Returns the first rule with a link outside its sides, or -1."""
    kept_links = 0
    for rule in range(len(start) - 1):
        start[rule] = kept_links
        for link in range(columns.link_start[rule], columns.link_start[rule + 1]):
            i = columns.source_start[rule] + columns.links[link, 0]
            j = columns.target_start[rule] + columns.links[link, 1]
            if i >= columns.source_start[rule + 1] or j >= columns.target_start[rule + 1]:
                return rule
            if columns.source[i] >= 0 and columns.target[j] >= 0:
                columns.links[kept_links, 0] = columns.links[link, 0]
                columns.links[kept_links, 1] = columns.links[link, 1]
                kept_links += 1
    start[len(start) - 1] = kept_links
    return -1


def number_gaps(columns: RuleColumns) -> tuple[RuleColumns, int]:
    """Assign numbers to nonterminals in source order, and remove their links. Changes the arrays in place.

    In the input, nonterminals are negative numbers: the same number for both nonterminals of a match, or -`UNNUMBERED`
    if they are linked. Returns the columns, and the first rule with invalid nonterminals or links, or -1.
    """
    fault = int(_number_gaps(columns, np.zeros(_MAX_GAPS, np.int32)))
    if fault >= 0:
        return columns, fault
    start = np.zeros(len(columns.link_start), np.int64)
    fault = int(_keep_word_links(columns, start))
    return columns._replace(links=columns.links[: start[-1]], link_start=start), fault
