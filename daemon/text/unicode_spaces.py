"""Detection of links that count words as if Unicode spaces, such as no-break spaces, split words."""

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from math import log, sqrt

from hierogram.daemon.text.inspection import Note
from hierogram.daemon.text.validation import LineColumns, split_tokens

UNICODE_SPACES = "unicode-spaces"
_SPACE = re.compile(
    b"|".join(one.encode() for one in map(chr, range(0x3001)) if one.isspace() and one not in " \t\n\r")
)
"""Character that separates words for `str.split` but not for a store."""
_IDEOGRAPHIC_SPACE = "\u3000"
_LINK = re.compile(r"(\d{1,6})-(\d{1,6})")

_MAX_COMPARED_LINES = 2_000
"""Maximum number of lines with Unicode spaces, and of lines without, that are compared."""
_VOCABULARY_SIZE = 1_000
"""Vocabulary size in the prior probability of a link."""
_MIN_LOG_RATIO = 10.0
"""Minimum absolute log-likelihood ratio for choosing one of the two ways to split lines."""
_MIN_DEVIATIONS = 2.0
"""Minimum ratio to the root of the sum of its squared terms, so that no single link decides."""


class _LinkModel:
    """Adaptive model of linked words: the probability of a link given the links added before."""

    def __init__(self) -> None:
        self._pairs: Counter[tuple[str, str]] = Counter()
        self._sources: Counter[str] = Counter()
        self._targets: Counter[str] = Counter()

    def log_probability(self, source: str, target: str) -> float:
        linked = log(self._pairs[source, target] + 1 / _VOCABULARY_SIZE)
        return 2 * linked - log(self._sources[source] + 1) - log(self._targets[target] + 1)

    def add(self, source: str, target: str) -> None:
        self._pairs[source, target] += 1
        self._sources[source] += 1
        self._targets[target] += 1


class UnicodeSpaceDetector:
    """Detector of links that count words as if Unicode spaces also separated words.

    Call `inspect` with the next chunks, then `divide` for each of them, and `note` at the end.

    A store splits lines at spaces and tabs. Programs that split lines like Python's `str.split` (eflomal, SimAlign,
    awesome-align) count `10 000` with a no-break space as two words. This shifts all later links of the line: they are
    out of range, or in range and wrong. The test is a likelihood ratio: if lines are split as the aligner split them,
    links repeat word pairs more often.
    """

    def __init__(self) -> None:
        self.divided = False
        """True if the aligner of the input split words at Unicode spaces, as far as known."""
        self._as_is, self._as_divided = _LinkModel(), _LinkModel()
        self._ratio = self._squares = 0.0
        self._compared = {True: 0, False: 0}
        """Number of compared lines with Unicode spaces (key True) and without them (False)."""
        self._out_of_range = 0
        self._with_spaces = self._undivided = 0
        self._space = ""

    def inspect(self, chunks: Sequence[LineColumns]) -> None:
        """Update `divided` with the next lines of the input."""
        spaced = [_find_spaced_lines(columns) for columns in chunks]
        if not any(spaced):
            return
        if self._compared[True] < _MAX_COMPARED_LINES:
            # Train the models on lines without Unicode spaces first, because both models split them alike.
            for columns, indices in zip(chunks, spaced, strict=True):
                self._compare(columns, sorted({*range(len(columns.sources))} - {*indices}), False)
            for columns, indices in zip(chunks, spaced, strict=True):
                self._compare(columns, indices, True)
            # Without a decisive ratio, split at Unicode spaces if any link is in range only after splitting.
            self.divided = self._ratio > 0 if self._is_decisive else self._out_of_range > 0
        number = sum(map(len, spaced))
        self._with_spaces += number
        if not self.divided:
            self._undivided += number

    @property
    def _is_decisive(self) -> bool:
        return abs(self._ratio) > max(_MIN_LOG_RATIO, _MIN_DEVIATIONS * sqrt(self._squares))

    def divide(self, columns: LineColumns) -> LineColumns:
        """Return the lines, split at Unicode spaces if they have links and `divided` is True."""
        if not self.divided:
            return columns
        linked = columns.linked()
        sources, targets = (
            [_SPACE.sub(b" ", line) if k in linked else line for k, line in enumerate(lines)]
            for lines in (columns.sources, columns.targets)
        )
        return replace(columns, sources=sources, targets=targets)

    def note(self) -> Note | None:
        """Return a note on lines with links and Unicode spaces, unless links fit a store's words."""
        if not self._with_spaces or (self._is_decisive and not self.divided):
            return None
        lines = f"{self._with_spaces:,} {'line' if self._with_spaces == 1 else 'lines'}"
        head = f"{lines} with links and Unicode spaces, such as U+{ord(self._space or _IDEOGRAPHIC_SPACE):04X}: "
        if not self.divided:
            reading = "the links are read as positions of words between spaces and tabs"
            advice = "replace these by ordinary spaces in the text"
            condition = "if the aligner also splits words at Unicode spaces, as eflomal does"
            return Note(UNICODE_SPACES, f"{head}{reading}; {condition}, {advice}")
        number = self._undivided
        first = f"the first {number:,} of these lines" if number > 1 else "the first of these lines"
        late = f", except in {first}, where this was not known yet" if number else ""
        text = f"the links count words that are split at these spaces, so the text was split there{late}"
        return Note(UNICODE_SPACES, f"{head}{text}")

    def _compare(self, columns: LineColumns, indices: Sequence[int], with_spaces: bool) -> None:
        for k in indices:
            if self._compared[with_spaces] >= _MAX_COMPARED_LINES:
                return
            line = (columns.alignments[k] or b"").decode(errors="replace")
            links = [(int(i), int(j)) for i, j in _LINK.findall(line)]
            if not links:
                continue
            source, target = (side[k].decode(errors="replace") for side in (columns.sources, columns.targets))
            if not self._space and (match := _SPACE.search(f"{source} {target}".encode())):
                self._space = match[0].decode()
            linked = _linked_words(links, split_tokens(source), split_tokens(target))
            divided = _linked_words(links, source.split(), target.split())
            if divided is None:
                continue
            self._compared[with_spaces] += 1
            if linked is None:
                self._out_of_range += 1
                continue
            for words, divided_words in zip(linked, divided, strict=True):
                if words != divided_words:
                    gain = self._as_divided.log_probability(*divided_words) - self._as_is.log_probability(*words)
                    self._ratio += gain
                    self._squares += gain * gain
            for words, divided_words in zip(linked, divided, strict=True):
                self._as_is.add(*words)
                self._as_divided.add(*divided_words)


def _find_spaced_lines(columns: LineColumns) -> list[int]:
    rows = enumerate(zip(columns.sources, columns.targets, columns.alignments, strict=True))
    return [k for k, (source, target, links) in rows if links and (_SPACE.search(source) or _SPACE.search(target))]


def _linked_words(
    links: Sequence[tuple[int, int]], source: Sequence[str], target: Sequence[str]
) -> list[tuple[str, str]] | None:
    try:
        return [(source[i], target[j]) for i, j in links]
    except IndexError:
        return None
