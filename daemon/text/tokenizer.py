"""Tokenizer for every script, by Unicode properties.

Words are runs of letters, marks, digits and joiners. A sign (a punctuation mark or symbol) is part of a word if it is
between two letters and neither ends a sentence nor encloses text: apostrophes, hyphens, the middle dot, Hebrew
gershayim, Armenian stress and question marks. Languages differ in three ways only: where an apostrophe splits a word
(`Apostrophe`), which abbreviations keep their full stop, and which package finds the words of a script written without
spaces. In addition, a corpus may have signs that are letters (see `orthography`).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from enum import Enum
from functools import lru_cache
from typing import NamedTuple

import regex

ZERO_WIDTH_SPACE = "\u200b"
"""Separator of words in scripts written without spaces."""

SPACE = "␣"
"""Token for a space that is punctuation in a script without spaces, or irregular beside a sign."""

WordFinder = Callable[[str], Sequence[str]]
"""Word segmenter: returns the words of a text without spaces."""

# Scripts in `_SPACELESS` have no spaces. Scripts in `_PHRASED` have spaces between phrases.
_IDEOGRAPHS = r"\p{Han}\p{Hiragana}\p{Bopomofo}\p{Yi}\p{Tangut}\p{Nushu}\p{Khitan_Small_Script}"
_KATAKANA = r"\p{Katakana}\u30fc"
_SPACELESS = rf"{_IDEOGRAPHS}{_KATAKANA}\p{{Javanese}}\p{{Balinese}}"
_WIDE_SIGNS = r"\u3001-\u3003\u3008-\u303f\u30fb\ufe30-\ufe4f\uff00-\uff65"
_PHRASED = r"\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\p{Tai_Tham}\p{Tai_Le}\p{New_Tai_Lue}\p{Tibetan}"
SYLLABLE_ENDS = "\u0f0b\u0f0c"
"""Signs at the end of a Tibetan syllable."""

_EXTEND = r"\p{M}\p{WB=Extend}\p{WB=Format}\u200c\u200d"
# Include abbreviation signs of Armenian and Indic scripts and Burmese words that Unicode classes as punctuation.
_LETTER_SIGN = r"\u055f\u0970\u09fd\u0a76\u0af0\u104c-\u104f\u180a\U000110bb\U000114c6\U0001183b"
_UNSPACED_LETTER = rf"[[{_SPACELESS}{_PHRASED}]&&[\p{{L}}\p{{Nl}}{_LETTER_SIGN}]]"
_HYPHEN = r"[\-\u2010\u2011\u058a\u05be\u1400\u1806\u2e40]"
_APOSTROPHES = "'\u2018\u2019\u02b9\u02bb\u02bc\u2032\uff07`\u00b4"
_APOSTROPHE = f"[{_APOSTROPHES}]"
_BETWEEN_LETTERS = r"[[\p{S}\p{Po}\p{Pc}]--\p{Terminal_Punctuation}--[\"/\\<>\u2025\u2026\u055d]]"
_INNER = "|".join(
    (
        _HYPHEN,
        _APOSTROPHE,
        r"_",
        rf"(?<=[\p{{L}}{_EXTEND}])(?:\.{_HYPHEN}?|{_BETWEEN_LETTERS}|[:!](?!\p{{Lu}}))(?=[\p{{L}}{_EXTEND}])",
        r"(?<=\p{L})\.(?=\p{N})|(?<=\p{N})\.(?=\p{Ll})",
        r"(?<=\p{N})[.,:\u066b\u066c](?=\p{N})",
        r"(?<=\p{Hebrew})[\"\u05f4\u201c-\u201f](?=\p{Hebrew})",
    )
)
_WORD_DIVIDER = r"[\u1361\u16eb\U0001039f\U000103d0\U00010100](?=\p{L})"
_ZERO_WIDTH_BESIDE_SPACED = regex.compile(
    rf"(?<![{_SPACELESS}{_PHRASED}])\u200b|\u200b(?!$|[{_SPACELESS}{_PHRASED}])", regex.V1
)
_SYLLABLE = regex.compile(
    rf"[{_KATAKANA}]+\p{{M}}*|[{_IDEOGRAPHS}]\p{{M}}*"
    rf"|[^{SYLLABLE_ENDS}{_KATAKANA}{_IDEOGRAPHS}]*[{SYLLABLE_ENDS}][{SYLLABLE_ENDS}\p{{M}}]*"
    rf"|[^{SYLLABLE_ENDS}{_KATAKANA}{_IDEOGRAPHS}]+",
    regex.V1,
)
LONG_WORD = regex.compile(rf"(?:{_UNSPACED_LETTER}\p{{M}}*){{16}}", regex.V1)
"""Run of letters of a script without spaces that is too long to be one word."""
_SPACING_PATTERNS = (
    regex.compile(rf"[{_SPACELESS}{_WIDE_SIGNS}]", regex.V1),
    regex.compile(rf"[{_UNSPACED_LETTER}{SYLLABLE_ENDS}[[{_PHRASED}]&&\p{{M}}]]", regex.V1),
)
_OPENING = {"'": "'\u2019", "\u2018": "\u2019", "\u2019": "\u2019", "`": "'", "\u201a": "\u2018\u2019"}
"""Closing quotation marks by opening mark, for quotation marks that look like an apostrophe."""
CLOSERS = "\"'»”’)]}›」』”）】"
"""Closing quotation marks and brackets."""


@lru_cache
def _token_pattern(letters: str) -> "regex.Pattern[str]":
    extra = "".join(f"\\{sign}" for sign in letters)
    letter = rf"[\p{{L}}\p{{N}}\p{{WB=ALetter}}{_LETTER_SIGN}{_EXTEND}{extra}]"
    spaced = rf"[{letter}--{_UNSPACED_LETTER}--[\u200b{SYLLABLE_ENDS}]]"
    return regex.compile(
        "|".join(
            (
                # Lengths in feet and inches are one token.
                r"\p{N}+['\u2019\u2032]\p{N}+[\"\u201d\u2033]",
                # Abbreviations such as U.S. keep the full stop after each part.
                rf"(?<!{letter}|\.)(?:\p{{L}}[{_EXTEND}]*){{1,3}}\.(?:(?:\p{{L}}[{_EXTEND}]*){{1,3}}\.)+(?!{letter})",
                rf"(?<run>{_UNSPACED_LETTER}(?:{_UNSPACED_LETTER}|[{SYLLABLE_ENDS}{_EXTEND}])*(?:(?<=[{_SPACELESS}])\u200b$)?)",
                # A word may begin with an apostrophe. After a space or an opening sign, it may begin with a hyphen, a
                # minus sign, the exclamation mark for a click, or the full stop of .txt and .5.
                rf"(?:(?<![^\p{{Ps}}\p{{Pi}}\"'])(?:{_HYPHEN}|[!\u2212](?={letter})|\.(?=[A-Za-z0-9])))?(?:{_APOSTROPHE}(?=[\p{{L}}\p{{N}}]))?"
                rf"{spaced}+(?:(?:{_INNER}){spaced}+)*"
                rf"(?:{_WORD_DIVIDER}|{_HYPHEN}(?![\-\u2010\p{{L}}\p{{N}}])|{_APOSTROPHE}(?!{_APOSTROPHE}))?",
                r"\u00b0[CFcf](?!\p{L})",
                rf"(?<sign>[[\p{{S}}\p{{Po}}\p{{Pd}}\p{{Pc}}]--[!?,;:\"'%&@]])(?P=sign)+[{_EXTEND}]*",
                rf"''[{_EXTEND}]*|(?!\u200b)\X(?:\u200b(?=$|[{_SPACELESS}{_PHRASED}]))?",
            )
        ),
        regex.V1,
    )


class Spacing(Enum):
    """Use of spaces next to a character: between words, between phrases only, or never."""

    WORDS = 0
    PHRASES = 1
    NEVER = 2


@lru_cache(maxsize=1 << 14)
def spacing(character: str) -> Spacing:
    """Return the use of spaces beside a character, by its script."""
    if character < "\u0e00":
        return Spacing.WORDS
    if _SPACING_PATTERNS[0].match(character):
        return Spacing.NEVER
    return Spacing.PHRASES if _SPACING_PATTERNS[1].match(character) else Spacing.WORDS


def is_unspaced(token: str) -> bool:
    """Check if a token is a word of a script written without spaces between words."""
    return token != SPACE and spacing(token[:1]) is not Spacing.WORDS and token[:1].isalpha()


class Apostrophe(Enum):
    """Role of an apostrophe between letters: a letter, the end (`l'`) or the start of a word (`'s`)."""

    LETTER = 0
    ENDS_WORD = 1
    BEGINS_WORD = 2


class _Chunk(NamedTuple):
    """Tokens of the text between two spaces, which depend only on this text.

    `quotes` are the indices of tokens that begin or end in an apostrophe. `stop` is the index of a full stop after a
    word, or -1. `first` and `last` are the spacing of the first and last character.
    """

    tokens: tuple[str, ...]
    quotes: tuple[int, ...]
    stop: int
    first: Spacing
    last: Spacing


class Tokenizer:
    """Tokenizer of one language. Thread-safe."""

    def __init__(
        self,
        apostrophe: Apostrophe = Apostrophe.LETTER,
        abbreviations: Iterable[str] = (),
        before_numbers: Iterable[str] = (),
        segmenter: WordFinder | None = None,
        script: str = r"\p{Any}",
        letters: str = "",
    ) -> None:
        """Create a tokenizer. Words in `abbreviations` keep their full stop, except at the end of a sentence.

        Words in `before_numbers` keep their full stop only before a number. `segmenter` splits a run of letters of a
        script without spaces if its beginning matches the pattern `script`; otherwise, syllables are tokens. `letters`
        are signs that are letters.
        """
        self._letters = frozenset(letters)
        self._pattern = _token_pattern(letters)
        self._apostrophe = apostrophe
        self._apostrophe_splits = _AFTER_APOSTROPHE if apostrophe is Apostrophe.ENDS_WORD else _BEFORE_APOSTROPHE
        self._abbreviations = frozenset(abbreviations)
        self._before_numbers = frozenset(before_numbers)
        self._segmenter = segmenter
        self._script = regex.compile(script)
        self._chunk = lru_cache(maxsize=1 << 15)(self._divide)

    def tokens(self, text: str) -> list[str]:
        """Return the tokens of a sentence. Except `SPACE`, they contain only characters of the text in order."""
        result: list[str] = []
        quotes: list[int] = []
        stop = -1
        last = Spacing.WORDS
        for chunk in map(self._chunk, text.split()):
            tokens = chunk.tokens
            if stop >= 0 and tokens and self._keeps_stop(result, stop, tokens[0]):
                result[stop - 1 : stop + 1] = [result[stop - 1] + "."]
                quotes = [k - (k > stop) for k in quotes]
            # Keep spaces between words of scripts without spaces, because such a space is punctuation.
            if result and tokens and (Spacing.NEVER in (last, chunk.first) or last is chunk.first is Spacing.PHRASES):
                result.append(SPACE)
            stop = len(result) + chunk.stop if chunk.stop >= 0 else -1
            if chunk.quotes:
                quotes += [len(result) + k for k in chunk.quotes]
            result += tokens
            last = chunk.last
        return self._detach_quotes(result, quotes) if quotes else result

    def _keeps_stop(self, tokens: Sequence[str], stop: int, following: str) -> bool:
        if following in {*CLOSERS}:
            return False
        word = tokens[stop - 1]
        if word in self._abbreviations or (word in self._before_numbers and following[0].isdigit()):
            return True
        if stop + 1 < len(tokens):
            return False
        # Scripts with one case only, such as Georgian, have no capital letters at the beginning of a sentence.
        small = following[0].islower() and following[0].title() != following[0]
        return small or (len(word) == 1 and word.isupper())

    def _divide(self, chunk: str) -> _Chunk:
        if chunk.isascii() and chunk.isalnum():
            return _Chunk((chunk,), (), -1, Spacing.WORDS, Spacing.WORDS)
        if ZERO_WIDTH_SPACE in chunk:
            chunk = _ZERO_WIDTH_BESIDE_SPACED.sub("", chunk)
        tokens: list[str] = []
        quotes: list[int] = []
        for match in self._pattern.finditer(chunk):
            token = match.group()
            if token[0] in _APOSTROPHES:
                quotes.append(len(tokens))
            if match["run"] is not None:
                tokens += self._split_run(token)
            elif len(token) > 1 and self._apostrophe is not Apostrophe.LETTER:
                tokens += self._apostrophe_splits.split(token)
            else:
                tokens.append(token)
            if token[-1] in _APOSTROPHES and quotes[-1:] != [len(tokens) - 1]:
                quotes.append(len(tokens) - 1)
        stop = tokens.index(".", 1) if "." in tokens[1:] else -1
        if stop > 0 and not tokens[stop - 1][-1].isalnum():
            stop = -1
        if not tokens:
            return _Chunk((), (), -1, Spacing.WORDS, Spacing.WORDS)
        return _Chunk(tuple(tokens), tuple(quotes), stop, spacing(tokens[0][0]), spacing(tokens[-1][-1]))

    def _split_run(self, run: str) -> Iterable[str]:
        if self._segmenter is not None and self._script.match(run):
            words = [word for part in self._segmenter(run) if (word := part.strip())]
            # Ignore the words if they differ from the text, because a package may normalize characters.
            if "".join(words) == run:
                return words
        syllables: list[str] = _SYLLABLE.findall(run)
        return syllables

    def _detach_quotes(self, tokens: list[str], quotes: Iterable[int]) -> list[str]:
        """Split apostrophes that are paired quotation marks from the words that they enclose."""
        # Count apostrophes inside words. If there are several, the apostrophe is a letter for the glottal stop.
        inner: Counter[str] = Counter()
        if self._apostrophe is Apostrophe.LETTER:
            inner.update(letter for token in tokens for letter in token[1:-1] if letter in _APOSTROPHES)
        waiting: list[tuple[int, str]] = []
        opening: set[int] = set()
        closing: set[int] = set()
        for k in quotes:
            token = tokens[k]
            if token[0] in _OPENING and token[1:2].isalnum():
                waiting.append((k, token[0]))
            if token[-1] in _APOSTROPHES:
                is_lone = len(token) == 1
                matching = [p for p, (_, sign) in enumerate(waiting) if token[-1] in _OPENING[sign]]
                if not matching:
                    if is_lone and token in _OPENING:
                        waiting.append((k, token))
                    continue
                start = waiting[matching[-1]][0]
                ends = k + 1 == len(tokens) or _AFTER_QUOTES.match(tokens[k + 1]) is not None
                sure = is_lone or len(tokens[start]) == 1 or ends
                if sure or (inner[token[-1]] < _MIN_INNER_APOSTROPHES and token[-1] not in self._letters):
                    opening.add(start)
                    closing.add(k)
                    del waiting[matching[-1] :]
        if self._apostrophe is Apostrophe.BEGINS_WORD:
            opening.update(k for k, _ in waiting if tokens[k][1:].lower() not in SHORTENED_WORDS)
        if not opening and not closing:
            return tokens
        detached: list[str] = []
        for k, token in enumerate(tokens):
            if k in opening and len(token) > 1:
                detached.append(token[0])
                token = token[1:]
            if k in closing and len(token) > 1:
                detached.append(token[:-1])
                token = token[-1]
            detached.append(token)
        return detached


_AFTER_QUOTES = regex.compile(r"[\p{Terminal_Punctuation}\p{Pe}\p{Pf}\"]", regex.V1)
_MIN_INNER_APOSTROPHES = 2
"""Number of apostrophes inside the words of a sentence from which the apostrophe counts as a letter."""
_AFTER_APOSTROPHE = regex.compile(r"(?<=\p{L}['\u2019])(?=\p{L})", regex.V1)
_BEFORE_APOSTROPHE = regex.compile(r"(?<=[\p{L}\p{N}])(?=['\u2019]\p{L})", regex.V1)
# English words with an apostrophe for omitted first letters, as in 'em and 'til, without the apostrophe.
SHORTENED_WORDS = frozenset({"em", "cause", "til", "tis", "twas", "n", "bout", "round", "kay", "cuz"})
