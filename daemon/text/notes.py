"""Notes on an input: signs of a probable user error in lines that can be stored.

`Notes` collects notes on the text during reading. `daemon.text.ingest` adds notes that depend on the store. The
command line prints the notes, HTTP and the library return them, and `ingest_batches.notes` contains them.
"""

import re
from dataclasses import dataclass

from hierogram.daemon.text.texts import LOOKS_RUNNING, LOOKS_TOKENIZED, Languages, looks_tokenized, words_advice
from hierogram.daemon.text.validation import LineColumns

EMPTY_INPUT = "empty-input"
RUNNING_TEXT = "running-text"
TOKENS_DIVIDED = "tokens-divided"
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
    """Collector of notes on an input.

    `rules` are the languages whose rules tokenize lines without links, None for no tokenization. `is_text` is False for
    a dictionary. `quoting` is True if a spreadsheet may have quoted the fields.
    """

    def __init__(self, rules: Languages | None, is_text: bool, quoting: bool) -> None:
        self._rules = rules
        self._quoting = quoting
        self._word_notes: list[Note] | None = None if is_text else []
        self._lines = self._escaped = self._quoted = self._doubled = 0
        self._escape = ""

    def inspect(self, fields: LineColumns) -> None:
        """Inspect the next lines of the input before they are tokenized."""
        if self._word_notes is None:
            self._word_notes = self._check_words(fields)
        self._lines += len(fields.sources)
        self._count_escapes(fields)
        for source, target in zip(fields.sources, fields.targets, strict=True) if self._quoting else ():
            quoted = [field for field in (source, target) if len(field) > 1 and _QUOTED.fullmatch(field.strip(b" "))]
            self._quoted += bool(quoted)
            self._doubled += any(b'""' in field.strip(b" ")[1:-1] for field in quoted)

    def _check_words(self, fields: LineColumns) -> list[Note]:
        divides = self._rules is not None
        raw = [k for k, alignment in enumerate(fields.alignments) if alignment is None]
        sides = [[side[k].decode(errors="replace") for k in raw] for side in (fields.sources, fields.targets)]
        notes = []
        if any(looks_tokenized(divides, side) for side in sides):
            text = (
                f"{LOOKS_TOKENIZED}, but it was tokenized again, which damages some tokens (d' eau becomes d ' eau)"
                ": withdraw the input, and ingest the raw text, or ingest into a store without --tokenize"
                if divides
                else f"{LOOKS_RUNNING}: tokenize the text with `hierogram ingest --tokenize fr,en`, or with a store "
                "created by `hierogram init --languages fr,en --tokenize`"
            )
            notes.append(Note(TOKENS_DIVIDED if divides else RUNNING_TEXT, text))
        if raw and (advice := words_advice(self._rules, sides)) is not None:
            notes.append(Note(NO_WORD_DIVISION, advice))
        return notes

    def _count_escapes(self, fields: LineColumns) -> None:
        escapes: set[int] = set()
        for lines in (fields.sources, fields.targets):
            text = b"\n".join(lines)
            if b"&" not in text and b"@-@" not in text and b"@/@" not in text:
                continue
            for k, line in enumerate(lines):
                if (escape := _ESCAPE.search(line)) is not None:
                    escapes.add(k)
                    self._escape = self._escape or escape[1].decode()
        self._escaped += len(escapes)

    def collect(self) -> list[Note]:
        """Return the notes on the lines so far."""
        notes = [*(self._word_notes or ())]
        if self._escaped > _MIN_ESCAPED_SHARE * self._lines:
            notes.append(
                Note(
                    ESCAPED,
                    f"{_lines(self._escaped)} escapes of the Moses tokenizer, such as {self._escape}, which match no "
                    "other text: ingest the original text (`sacremoses detokenize` restores it)",
                )
            )
        if self._doubled or self._quoted > _MIN_QUOTED_SHARE * self._lines:
            notes.append(
                Note(
                    QUOTED_FIELDS,
                    f"{_lines(self._quoted)} fields in quotation marks, as written by spreadsheets; the marks are "
                    "stored as part of the text: write the file without quoting",
                )
            )
        return notes


def _lines(number: int) -> str:
    return f"{number:,} {'line has' if number == 1 else 'lines have'}"
