"""Notes on an input: probable user errors that do not reject lines, and settings that the text determined.

`InputValidator` collects notes on the text during reading. `daemon.text.ingest` adds notes on the stored words. The
command line prints the notes, HTTP and the library return them, and `ingest_batches.notes` contains them.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from hierogram.daemon.text.languages import GENERAL
from hierogram.daemon.text.pipeline import Languages, segmenter_advice
from hierogram.daemon.text.running_text import TextSigns
from hierogram.daemon.text.validation import LineColumns

EMPTY_INPUT = "empty-input"
TOKENIZATION = "tokenization"
NO_WORD_DIVISION = "no-word-division"
ESCAPED = "escaped"
NOT_NFC = "not-nfc"
QUOTED_FIELDS = "quoted-fields"
SWAPPED_SIDES = "swapped-sides"
UNICODE_SPACES = "unicode-spaces"
ONE_BASED = "one-based"
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
            found = f"{_lines(self._escaped)} escapes of the Moses tokenizer, such as {self._escape}"
            advice = "ingest the original text (`sacremoses detokenize` restores it)"
            yield Note(ESCAPED, f"{found}, which other text does not contain: {advice}")
        if self._doubled or self._quoted > _MIN_QUOTED_SHARE * self._lines:
            found = f"{_lines(self._quoted)} fields in quotation marks, as written by spreadsheets"
            advice = "the marks are stored as part of the text: write the file without quoting"
            yield Note(QUOTED_FIELDS, f"{found}; {advice}")


def describe_tokenization(signs: TextSigns, rules: Languages | None, sets_tokenize: bool) -> Iterator[Note]:
    """Yield the notes on the tokenization of an input. `rules` are the languages whose rules tokenize it, or None.

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


def _lines(number: int) -> str:
    return f"{number:,} {'line has' if number == 1 else 'lines have'}"
