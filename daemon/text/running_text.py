"""Detection of running text and of tokens, by the spaces beside punctuation marks."""

from collections.abc import Iterable
from itertools import islice
from typing import NamedTuple

import regex

from hierogram.daemon.text.tokenizer import LONG_WORD

_WORD = r"[\p{L}\p{M}\p{N}]"
_WIDE = "。，、！？；："
"""Punctuation marks that have no space beside them in running text."""
_NO_ENTITY = r"(?<!&#?\w+;)"
_ATTACHED = regex.compile(
    rf"""{_WORD}[\p{{Term}}…]+{_NO_ENTITY}["'\p{{Pe}}\p{{Pf}}]*\s*$"""
    rf"""|[\p{{L}}\p{{M}}]{{2}}[\p{{Term}}--.]{_NO_ENTITY}\s|{_WORD}[{_WIDE}]""",
    regex.V1,
)
"""Punctuation attached to a word: at the end of the line, before a space (except a full stop), or a wide mark."""
_DETACHED = regex.compile(rf"\S\s+[.,،።։។။{_WIDE}](?:\s|$)")
"""Punctuation mark after a space. `?`, `;` and danda are excluded, because some languages put a space before them."""
_SAMPLE_LINES = 2_000
_MIN_SHARE = 0.05


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
        if running + self.detached < max(1, _MIN_SHARE * self.lines):
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
    for line in islice(filter(str.strip, lines), _SAMPLE_LINES):
        number += 1
        # Search for detached punctuation first, because tokenized lines may end in an abbreviation.
        if _DETACHED.search(line):
            detached += 1
        elif LONG_WORD.search(line):
            unspaced += 1
        elif _ATTACHED.search(line):
            attached += 1
    return TextSigns(number, attached, unspaced, detached)
