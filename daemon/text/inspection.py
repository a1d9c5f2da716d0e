"""Inspection of an input: running text or tokens, and notes on probable user errors.

Notes do not reject lines. `InputValidator` collects notes on the text during reading. `IngestBatch` adds the
notes of `vocabulary_notes`. The command line prints the notes, HTTP and the library return them, and
`ingest_batches.notes` contains them.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import NamedTuple

import regex

from hierogram.daemon.text.languages import GENERAL, segmenter_advice
from hierogram.daemon.text.pipeline import Languages, TextSide
from hierogram.daemon.text.tokenizer import LONG_WORD
from hierogram.daemon.text.validation import LineColumns

TOKENIZATION = "tokenization"
NO_WORD_DIVISION = "no-word-division"
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
        """Yield the notes on the lines inspected so far."""
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
    """Numbers of inspected lines: all (`lines`), and lines with a sign of running text or of tokens.

    Signs of running text are punctuation attached to a word (`attached`) and long runs of letters in scripts without
    spaces (`unspaced`). The sign of tokens is a space before punctuation (`detached`).
    """

    lines: int
    attached: int
    unspaced: int
    detached: int

    @property
    def is_running(self) -> bool | None:
        """True for running text, False for tokens, None if fewer than 5 % of the lines (or none) have signs."""
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
    """Count the signs of running text and of tokens in the first `_SAMPLED_LINES` nonempty lines."""
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
"""Arguments `tokenize` and `keep` of `text_advice` for responses to HTTP requests."""


def text_advice(side: TextSide, name: str, lines: Sequence[str], tokenize: str, keep: str) -> str | None:
    """Return advice if text is not tokenized but should be, or the reverse. Otherwise None.

    The advice contains the `name` of the text, and the ways to have it tokenized (`tokenize`) or not (`keep`).
    """
    signs = count_signs(lines)
    if signs.is_running in (None, side.language is not None):
        return None
    advice = (
        f"{tokenize} to tokenize it, or {keep} if it is tokenized" if signs.is_running else f"{keep} to keep the tokens"
    )
    return f"{name}: the text seems to be {signs}: use {advice}"


def describe_tokenization(signs: TextSigns, rules: Languages | None, sets_tokenize: bool) -> Iterator[Note]:
    """Yield notes on the tokenization of an input.

    `rules` are the languages whose rules tokenize it, None if its tokens are kept. `sets_tokenize` is True if the input
    determines the setting `tokenize`. Otherwise, a note is yielded if the text contradicts the setting. Further notes
    are on languages whose words cannot be found.
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
