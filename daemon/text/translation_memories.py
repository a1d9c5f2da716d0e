"""TMX translation memories as input of sentence pairs without an alignment.

Each source-language text of a unit is paired with each of its target-language texts. The file is streamed, and large
units are rejected, so that memory is bounded.
"""

import re
from collections.abc import Iterable, Iterator
from itertools import product

from hierogram.daemon.text import xml_streams
from hierogram.daemon.text.lines import BYTES_PER_CHUNK, LINES_PER_CHUNK
from hierogram.daemon.text.protected_spans import find_protected
from hierogram.daemon.text.rejections import LINE_TOO_LONG, MISSING_FIELD, RejectionError
from hierogram.daemon.text.validation import LineColumns, reject

_CODES = frozenset({"bpt", "ept", "it", "ph", "ut"})
"""Elements that contain codes of the original document, not words."""
_SUBFLOW = "sub"
"""Element for text that is inside a code but not part of the sentence, such as a footnote or a title."""
_PLACEHOLDER = "ph"
"""Element for a code that may be part of the sentence: a placeholder or a line break."""
_BREAKS = frozenset({"lb", "pb", "cb"})
_BREAK = re.compile(r"\s*<br\b", re.IGNORECASE)
_MAX_CODE_LENGTH = 100
"""Number of characters after which the content of a code is cut."""
_MAX_CHARACTERS = 1 << 20
"""Maximum number of characters of a unit's segments together."""
_MAX_VARIANTS = 1_000
_MAX_PAIRS = 100
"""Maximum number of pairs of a unit with several texts per language."""


_Unit = tuple[str | None, list[tuple[str, str]] | None]
"""Id of a translation unit, and (language, text) in file order, None if a limit is exceeded."""


class _Reader(xml_streams.UnitReader[_Unit]):
    def __init__(self, name: str) -> None:
        super().__init__(name, "TMX", "tmx")
        self._variants: list[tuple[str, str]] = []
        self._unit_id: str | None = None
        self._language = ""
        self._text: list[str] | None = None
        self._size = 0
        self._codes = self._subflows = 0
        self._code = ""
        """Content of the open code, see `_CODES`."""
        self._is_break = False
        """True if the open code is a line, page or column break by its type."""

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        super().start(tag, attributes)
        if tag == "tu":
            self._variants, self._size = [], 0
            self._unit_id = attributes.get("tuid")
        elif tag == "tuv":
            self._language = attributes.get(xml_streams.LANGUAGE) or attributes.get("lang") or ""
        elif tag == "seg":
            self._text, self._codes, self._subflows = [], 0, 0
        elif tag == _SUBFLOW:
            self._subflows += 1
        elif tag in _CODES and not self._subflows:
            self._codes += 1
            self._code, self._is_break = "", attributes.get("type") in _BREAKS

    def data(self, text: str) -> None:
        super().data(text)
        if self._codes and not self._subflows:
            self._code += text[: _MAX_CODE_LENGTH - len(self._code)]
        elif not self._subflows:
            self._append(text)

    def _append(self, text: str) -> None:
        if self._text is not None:
            self._size += len(text)
            if self._size <= _MAX_CHARACTERS:
                self._text.append(text)

    def end(self, tag: str) -> None:
        super().end(tag)
        if tag == "seg" and self._text is not None:
            if len(self._variants) <= _MAX_VARIANTS and self._size <= _MAX_CHARACTERS:
                self._variants.append((self._language, " ".join("".join(self._text).split())))
            self._text = None
        elif tag == "tu":
            long = len(self._variants) > _MAX_VARIANTS or self._size > _MAX_CHARACTERS
            self.units.append((self._unit_id, None if long else self._variants))
            self._variants = []
        elif tag == _SUBFLOW:
            self._subflows -= 1
        elif tag in _CODES and not self._subflows:
            self._codes -= 1
            if tag == _PLACEHOLDER and not self._codes:
                text = self._code.strip()
                if any((span.start, span.end) == (0, len(text)) for span in find_protected(text, tags=False)):
                    self._append(text)
                elif self._is_break or _BREAK.match(text):
                    self._append(" ")


def read_tmx(
    blocks: Iterable[bytes], name: str, languages: tuple[str, str] | None, *, ids: bool = False
) -> Iterator[LineColumns]:
    """Yield the pairs of a TMX file in chunks. Line numbers are numbers of units, from 1.

    `blocks` are the bytes of the file, and `name` its name in messages. `languages` are source and target, None for the
    languages of the first unit, in its order. Language `en` also matches `en-GB`. With `ids`, a unit's `tuid` is the id
    of its pairs; do not use it for several files that number their units from 1. Raises `InputError` if the file is
    invalid, or if `languages` is None and the first unit does not have two languages.
    """
    columns, units, held = LineColumns(), 0, 0
    for number, (tuid, variants) in enumerate(xml_streams.read_units(blocks, _Reader(name)), 1):
        if languages is None:
            languages = xml_streams.unit_languages((language for language, _ in variants or ()), name, "unit")
        content = " ||| ".join(f"{code}: {text}" for code, text in variants or ()).encode()
        try:
            for source, target in _pair_texts(variants, languages):
                columns.append(number, source.encode(), target.encode(), None, tuid if ids and tuid else None)
        except RejectionError as rejection:
            columns.rejected.append(reject(number, rejection, content))
        units, held = units + 1, held + len(content)
        if units == LINES_PER_CHUNK or held > BYTES_PER_CHUNK:
            yield columns
            columns, units, held = LineColumns(), 0, 0
    if units:
        yield columns


def _pair_texts(variants: list[tuple[str, str]] | None, languages: tuple[str, str]) -> Iterator[tuple[str, str]]:
    if variants is None:
        problem = f"the unit has more than {_MAX_CHARACTERS:,} characters or {_MAX_VARIANTS:,} variants"
        raise RejectionError(LINE_TOO_LONG, problem)
    sides = xml_streams.split_by_language(variants, languages)
    texts = [list(dict.fromkeys(text for _, text in side)) for side in sides]
    missing = [language for language, side in zip(languages, texts, strict=True) if not side]
    if missing:
        raise RejectionError(MISSING_FIELD, f"the unit has no text in {' and '.join(missing)}")
    if len(texts[0]) * len(texts[1]) > _MAX_PAIRS:
        many = f"{len(texts[0])} texts in {languages[0]} and {len(texts[1])} in {languages[1]}"
        problem = f"the unit has {many}, which form more than {_MAX_PAIRS} pairs: split it"
        raise RejectionError(LINE_TOO_LONG, problem)
    return product(texts[0], texts[1])
