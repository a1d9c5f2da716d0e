"""Inspection of an input: running text or tokens, and notes on probable user errors.

Notes do not reject lines. `InputValidator` collects notes on the text during reading. `daemon.text.ingest` adds notes
on the stored words. The command line prints the notes, HTTP and the library return them, and `ingest_batches.notes`
contains them.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from math import log, sqrt
from typing import NamedTuple

import regex

from hierogram.daemon.text.languages import GENERAL, segmenter_advice
from hierogram.daemon.text.pipeline import Languages, TextSide
from hierogram.daemon.text.tokenizer import LONG_WORD
from hierogram.daemon.text.validation import LineColumns, split_tokens

TOKENIZATION = "tokenization"
NO_WORD_DIVISION = "no-word-division"
UNICODE_SPACES = "unicode-spaces"
WORD_PARTS = "word-parts"

_ESCAPE = re.compile(rb"(?:^|[ \t])(&(?:apos|quot|amp|lt|gt|bar|#91|#93|#124);|@[-/]@(?=[ \t]|$))")
"""Escape of the Moses tokenizer at the start of a word, or its token `@-@` or `@/@` for `-` or `/`."""
_MIN_ESCAPED_SHARE = 0.001
"""Share of lines with escapes above which a note is added."""
_MIN_QUOTED_SHARE = 0.5
_QUOTED = re.compile(rb'"(?:[^"]|"")*"')


@dataclass(frozen=True, slots=True)
class Note:
    """Note on an input: a stable code and a human-readable sentence."""

    code: str
    text: str

    def __str__(self) -> str:
        return f"{self.code}: {self.text}"


class Notes:
    """Collector of notes on an input. `quoting` is True if a spreadsheet may have quoted the fields."""

    def __init__(self, quoting: bool) -> None:
        self._quoting = quoting
        self._lines = self._escaped = self._quoted = self._doubled = 0
        self._escape = ""

    def inspect(self, columns: LineColumns) -> None:
        """Inspect the next lines of the input before they are tokenized."""
        self._lines += len(columns.sources)
        escaped: set[int] = set()
        for lines in (columns.sources, columns.targets):
            for k, line in enumerate(lines):
                if (b"&" in line or b"@" in line) and (escape := _ESCAPE.search(line)):
                    escaped.add(k)
                    self._escape = self._escape or escape[1].decode()
        self._escaped += len(escaped)
        for source, target in zip(columns.sources, columns.targets, strict=True) if self._quoting else ():
            quoted = [field for field in (source, target) if len(field) > 1 and _QUOTED.fullmatch(field.strip(b" "))]
            self._quoted += bool(quoted)
            self._doubled += any(b'""' in field.strip(b" ")[1:-1] for field in quoted)

    def collect(self) -> Iterator[Note]:
        """Yield the notes on the lines so far."""
        if self._escaped > _MIN_ESCAPED_SHARE * self._lines:
            found = f"{_lines_have(self._escaped)} escapes of the Moses tokenizer, such as {self._escape}"
            advice = "ingest the original text (`sacremoses detokenize` restores it)"
            yield Note("escaped", f"{found}, which other text does not contain: {advice}")
        if self._doubled or self._quoted > _MIN_QUOTED_SHARE * self._lines:
            found = f"{_lines_have(self._quoted)} fields in quotation marks, as written by spreadsheets"
            advice = "the marks are stored as part of the text: write the file without quoting"
            yield Note("quoted-fields", f"{found}; {advice}")


def _lines_have(number: int) -> str:
    return f"{number:,} {'line has' if number == 1 else 'lines have'}"


_WORD = r"[\p{L}\p{M}\p{N}]"
_WIDE = "。，、！？；："
"""Punctuation marks that have no space beside them in running text."""
_NO_ENTITY = r"(?<!&#?\w+;)"
_ATTACHED = regex.compile(
    rf"""{_WORD}[\p{{Term}}…]+{_NO_ENTITY}["'\p{{Pe}}\p{{Pf}}]*\s*$"""
    rf"""|[\p{{L}}\p{{M}}]{{2}}[\p{{Term}}--.]{_NO_ENTITY}\s|{_WORD}[{_WIDE}]""",
    regex.V1,
)
"""Punctuation after a word at the line end or before a space (except a full stop), or a wide mark."""
_DETACHED = regex.compile(rf"\S\s+[.,،።։។။{_WIDE}](?:\s|$)")
"""Punctuation mark after a space. Excludes `?`, `;` and danda, which follow a space in some languages."""
_SAMPLED_LINES = 2_000
_MIN_SIGN_SHARE = 0.05


class TextSigns(NamedTuple):
    """Numbers of sampled lines: all (`lines`), and lines with a sign of running text or of tokens.

    Signs of running text are punctuation attached to a word (`attached`) and long runs of letters in scripts without
    spaces (`unspaced`). The sign of tokens is a space before punctuation (`detached`).
    """

    lines: int
    attached: int
    unspaced: int
    detached: int

    @property
    def is_running(self) -> bool | None:
        """True for running text, False for tokens, None if less than 5 % of the lines have signs."""
        running = self.attached + self.unspaced
        if running + self.detached < max(1, _MIN_SIGN_SHARE * self.lines):
            return None
        return running >= self.detached

    def __str__(self) -> str:
        """Return a description for notes. `is_running` must not be None."""
        if not self.is_running:
            return f"tokenized: {self.detached:,} of {self.lines:,} lines have spaces before punctuation"
        unspaced = f", and {self.unspaced:,} have no spaces between words" if self.unspaced else ""
        return f"running text: {self.attached:,} of {self.lines:,} lines have punctuation attached to words{unspaced}"


def count_signs(lines: Iterable[str]) -> TextSigns:
    """Count the signs of running text and of tokens in the first lines of a text."""
    number = attached = unspaced = detached = 0
    for line in islice(filter(str.strip, lines), _SAMPLED_LINES):
        number += 1
        # Search for detached punctuation first, because tokenized lines may end in an abbreviation.
        if _DETACHED.search(line):
            detached += 1
        elif LONG_WORD.search(line):
            unspaced += 1
        elif _ATTACHED.search(line):
            attached += 1
    return TextSigns(number, attached, unspaced, detached)


IN_REQUESTS = ("a store of running text", '"tokenized": true')
"""Arguments `tokenize` and `keep` of `text_advice` for advice in HTTP responses."""


def text_advice(side: TextSide, name: str, lines: Sequence[str], tokenize: str, keep: str) -> str | None:
    """Return a note if sentences should be tokenized, or would be tokenized twice. Otherwise None.

    `name` is the name of the text, `tokenize` the setting that tokenizes it, `keep` the setting that keeps its tokens.
    """
    signs = count_signs(lines)
    if signs.is_running in (None, side.language is not None):
        return None
    advice = (
        f"{tokenize} to tokenize it, or {keep} if it is tokenized" if signs.is_running else f"{keep} to keep the tokens"
    )
    return f"{name}: the text seems to be {signs}: use {advice}"


def describe_tokenization(signs: TextSigns, rules: Languages | None, sets_tokenize: bool) -> Iterator[Note]:
    """Yield notes on the tokenization of an input. `rules` are the languages whose rules tokenize it.

    `sets_tokenize` is True if the input determines the setting `tokenize`. Otherwise, a note is yielded if the text
    contradicts the setting.
    """
    if sets_tokenize and rules is not None:
        names = "general rules" if GENERAL in rules else f"the rules of {' and '.join(dict.fromkeys(rules))}"
        hint = "; `hierogram init --languages` selects the rules of languages" if GENERAL in rules else ""
        yield Note(TOKENIZATION, f"text is tokenized by {names}, because it is {signs}{hint}")
    elif sets_tokenize:
        yield Note(TOKENIZATION, f"tokens are kept, because the text is {signs}")
    elif signs.is_running is False and rules is not None:
        damage = "it was tokenized again, which damages some tokens (it 's becomes it ' s)"
        advice = "withdraw the input, and ingest the original text"
        yield Note(TOKENIZATION, f"the input seems to be {signs}; {damage}: {advice}")
    elif signs.is_running and rules is None:
        damage = "the store keeps tokens, so words of the input include punctuation"
        advice = "withdraw the input, and tokenize it like the other text of the store"
        yield Note(TOKENIZATION, f"the input seems to be {signs}; {damage}: {advice}")
    if rules is not None and GENERAL not in rules and (missing := segmenter_advice(rules)):
        yield Note(NO_WORD_DIVISION, missing)
    elif rules is not None and 4 * signs.unspaced > signs.lines:
        advice = "create a store with `hierogram init --languages` to find the words"
        yield Note(NO_WORD_DIVISION, f"sentences have no spaces between words: {advice}")


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
"""Minimum ratio in deviations (root of the sum of its squared terms), so that no single link decides."""


class _LinkModel:
    """Adaptive model of linked words: the probability of a link given the earlier links."""

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

    A store splits lines at spaces and tabs. Programs that split lines like Python's `str.split` (eflomal, SimAlign,
    awesome-align) count `10 000` with a no-break space as two words. This shifts all later links of the line: they are
    out of range, or in range and wrong. The test is a likelihood ratio: if lines are split as the aligner split them,
    links repeat word pairs more often.
    """

    def __init__(self) -> None:
        self.divided = False
        self._as_is, self._as_divided = _LinkModel(), _LinkModel()
        self._ratio = self._squares = 0.0
        self._compared = {True: 0, False: 0}
        """Number of compared lines with Unicode spaces (key True) and without them (False)."""
        self._out_of_range = 0
        self._with_spaces = self._undivided = 0
        self._space = ""

    def inspect(self, chunks: Sequence[LineColumns]) -> None:
        """Update the decision with the next lines of the input."""
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
        """Split lines with links at Unicode spaces if the aligner of the input did so."""
        if not self.divided:
            return columns
        linked = columns.linked()
        sources, targets = (
            [_SPACE.sub(b" ", line) if k in linked else line for k, line in enumerate(lines)]
            for lines in (columns.sources, columns.targets)
        )
        return replace(columns, sources=sources, targets=targets)

    def note(self) -> Note | None:
        """Return a note on lines with links and Unicode spaces, unless links clearly fit a store's words."""
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
