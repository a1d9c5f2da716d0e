"""Languages: how text of each is divided into sentences and tokens, and what stands between tokens that become text.

sacremoses has rules for most languages that are written with spaces. Chinese, Japanese and Thai are divided by jieba,
fugashi and pythainlp. Any other language has general rules: words keep their apostrophes and hyphens.
"""

import re
import sys
import threading
import unicodedata
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from hierogram.daemon.exceptions import UsageError

GENERAL = "und"
"""The language of text in a language that nobody named: it has the general rules."""

Spot = tuple[int, int]
"""Where something stands in a text: half-open."""

_ENDS = ".!?…؟۔।॥։።⁇⁈⁉‽"
_WIDE_ENDS = "。！？｡"
_CLOSERS = "\"'»”’)]}›」』”）】"
_OPENERS = "\"'«“„‘‹¿¡([{<%-–—"
_SENTENCE_END = re.compile(
    rf"(?P<end>[{re.escape(_ENDS)}]+)(?:[{re.escape(_CLOSERS)}]|[ \u00a0\u202f]»)*(?=\s)"
    rf"|[{_WIDE_ENDS}]+[{re.escape(_CLOSERS)}]*"
)
_INITIAL = re.compile(r"(?:^|[\s.(\"'«“])([^\W\d_])$")
_LAST_WORD = re.compile(r"[^\s(\"'«“]+$")


class Language(ABC):
    """Rules of a language; `prefixes` are words that a full stop after them belongs to, as in Dr."""

    spaced = True
    """Whether spaces stand between words."""
    apart = False
    """Whether a word's apostrophe is a token of its own."""

    def __init__(self, code: str, prefixes: frozenset[str] = frozenset()) -> None:
        self.code = code
        self._prefixes = prefixes

    @abstractmethod
    def tokens(self, text: str) -> list[str]:
        """Return the tokens of a sentence, which are its letters in their order, without spaces."""

    def separators(self, tokens: Sequence[str]) -> list[str]:
        """Return what stands before each token in text: nothing or a space; nothing before the first one."""
        return _Joining(self.code, self.apart, tokens).separators()

    def join(self, tokens: Sequence[str]) -> str:
        """Return the text that tokens are."""
        return "".join(part for pair in zip(self.separators(tokens), tokens, strict=True) for part in pair)

    def sentences(self, text: str) -> list[Spot]:
        """Return where the sentences of a line stand, without the spaces around them."""
        spots, start = [], 0
        for match in _SENTENCE_END.finditer(text):
            if match["end"] is None or self._ends(text, start, match):
                spots.append((start, match.end()))
                start = match.end()
        spots.append((start, len(text)))
        return [spot for start, end in spots if (spot := _trimmed(text, start, end))]

    def _ends(self, text: str, start: int, match: re.Match[str]) -> bool:
        """Return whether a sentence ends at a mark with a space behind it."""
        following = text[match.end() :].lstrip().lstrip(_OPENERS + " \u00a0\u202f")[:1]
        if following.islower():
            return False
        if match["end"] != ".":
            return True
        before = text[start : match.start()]
        if (initial := _INITIAL.search(before)) and initial.group(1).isupper():
            return False
        last = _LAST_WORD.search(before)
        return last is None or last.group() not in self._prefixes


def _trimmed(text: str, start: int, end: int) -> Spot | None:
    while start < end and text[start].isspace():
        start += 1
    while start < end and text[end - 1].isspace():
        end -= 1
    return (start, end) if start < end else None


class MosesLanguage(Language):
    """A language that sacremoses divides, after Moses' tokenizer.

    An apostrophe of print between letters is treated as the one of typewriters; it stays what it is.
    """

    def __init__(self, code: str) -> None:
        from sacremoses import MosesTokenizer

        self._moses = MosesTokenizer(lang=code)
        super().__init__(code, frozenset(self._moses.NONBREAKING_PREFIXES))
        self.apart = code not in ("en", "fr", "it")

    def tokens(self, text: str) -> list[str]:
        """Return the tokens of a sentence."""
        plain = _PRINTED_APOSTROPHE.sub("'", text) if "’" in text else text
        # Left as they are, & and quotes are what other tools and people see, too.
        tokens: list[str] = self._moses.tokenize(plain, escape=False)
        if plain is not text:
            tokens = [text[start:end] for start, end in placed(tokens, plain)]
        return tokens


_PRINTED_APOSTROPHE = re.compile(r"(?<=[^\W\d_])’(?=[^\W\d_])")


class GeneralLanguage(Language):
    """A language without rules of its own: punctuation is divided from words.

    Apostrophes and hyphens within words stay, and an apostrophe behind a word that closes no quotation.
    """

    def tokens(self, text: str) -> list[str]:
        """Return the tokens of a sentence."""
        tokens: list[str] = []
        quoted = False
        for token in _general().findall(text):
            if token in "'’‘`":
                quoted = not quoted
            elif quoted and len(token) > 1 and token[-1] in "'’":
                tokens.append(token[:-1])
                token, quoted = token[-1], False
            tokens.append(token)
        return tokens


@cache
def _general() -> re.Pattern[str]:
    marks = "".join(c for c in map(chr, range(sys.maxunicode + 1)) if unicodedata.category(c) in ("Mn", "Mc"))
    letter = rf"(?:[^\W_]|[{marks}\u200c\u200d])"
    word = rf"{letter}+(?:['’ʼ`~·\-‐_]{letter}+)*['’ʼ]?"
    return re.compile(rf"\d+(?:[.,:]\d+)+(?!{letter})|{word}|-{word}|\.{{2,}}|-{{2,}}|[^\s]")


class UnspacedLanguage(Language):
    """A language that is written without spaces, divided by a package of its own."""

    spaced = False

    def __init__(self, code: str, divide: Callable[[str], Sequence[str]]) -> None:
        super().__init__(code)
        self._divide = divide

    def tokens(self, text: str) -> list[str]:
        """Return the tokens of a sentence."""
        return [part for token in self._divide(text) for part in token.split()]


def _jieba() -> Callable[[str], Sequence[str]]:
    import logging

    import jieba

    jieba.setLogLevel(logging.WARNING)
    divide: Callable[[str], Sequence[str]] = jieba.lcut
    return divide


def _fugashi() -> Callable[[str], Sequence[str]]:
    import fugashi

    tagger, lock = fugashi.Tagger(), threading.Lock()

    def divide(text: str) -> Sequence[str]:
        with lock:
            return [str(word) for word in tagger(text)]

    return divide


def _pythainlp() -> Callable[[str], Sequence[str]]:
    from pythainlp.tokenize import word_tokenize

    def divide(text: str) -> Sequence[str]:
        found: list[str] = word_tokenize(text, engine="newmm", keep_whitespace=False)
        return found

    return divide


_UNSPACED: dict[str, tuple[str, str, Callable[[], Callable[[str], Sequence[str]]]]] = {
    "zh": ("jieba", "chinese", _jieba),
    "yue": ("jieba", "chinese", _jieba),
    "ja": ("fugashi", "japanese", _fugashi),
    "th": ("pythainlp", "thai", _pythainlp),
}
"""By language: the package that divides it, the extra that brings it, and what loads it."""


@cache
def language_of(code: str) -> Language:
    """Return the rules of a language; raises `UsageError` where the package that divides it is missing."""
    base = re.split("[-_]", code.lower())[0]
    if base in _UNSPACED:
        package, extra, load = _UNSPACED[base]
        try:
            return UnspacedLanguage(base, load())
        except (ImportError, RuntimeError) as error:
            # fugashi raises RuntimeError without a dictionary.
            raise UsageError(
                f"dividing {code} into tokens needs {package}: pip install 'hierogram[{extra}]'"
            ) from error
    try:
        from sacremoses.corpus import NonbreakingPrefixes
    except ImportError as error:
        raise UsageError("dividing text into tokens needs sacremoses: pip install 'hierogram[tokenize]'") from error
    known: dict[str, Any] = NonbreakingPrefixes().available_langs
    return MosesLanguage(base) if base in known.values() else GeneralLanguage(base)


def placed(tokens: Sequence[str], text: str) -> list[Spot]:
    """Return where each token stands in the text that it was divided from."""
    spots, at = [], 0
    for token in tokens:
        found = text.find(token, at)
        if found >= 0:
            at = found
        spots.append((at, min(at + len(token), len(text))))
        at = spots[-1][1]
    return spots


_PAIRED = {"(": ")", "[": "]", "{": "}", "“": "”", "‘": "’", "«": "»", "‹": "›", "「": "」", "『": "』", "（": "）"}
_CLOSING = {*_PAIRED.values()}
_LEFT = re.compile(r"(?:[.,;:!?…؟،؛۔।॥։።‽]+|[%‰°^]|[²³ª]+)$")
_FRENCH = re.compile(r"[;:!?%]")
_CONTRACTION = re.compile(r"['’][^\W\d_]+\.?$")
_ELISION = re.compile(r"[^\W\d_]['’]$")
_CURRENCY = "$£¥₩₹₽₺₪฿€"
_TIGHT = "/_"
_SHORT_OF_ITS_LETTERS = {"em", "cause", "til", "tis", "twas", "n", "bout", "round", "kay", "cuz"}
NO_BREAK = "\u00a0"
_BEGUN_EARLIER, _FAR, _OUT_OF_TURN, _OUT_OF_PLACE, _NOTHING_TO_QUOTE = 0.5, 1.0, 2.0, 2.5, 4.0
"""What speaks against a straight quotation mark: it closes first; it is far from where most are; it opens or closes as
the one before it did; other punctuation is beside it that belongs to the other kind; nothing is beside it."""


class _Joining:
    """Finds what stands before each token of one sentence.

    A token is bound to the one before it (`_left`), or to the one after it (`_right`).
    """

    def __init__(self, code: str, apart: bool, tokens: Sequence[str]) -> None:
        self._code = code
        self._apart = apart
        self._tokens = tokens
        self._left = [False] * (len(tokens) + 1)
        self._right = [False] * (len(tokens) + 1)
        self._open: list[str] = []
        self._single = [k for k, token in enumerate(tokens) if token in ("'", "`")]
        self._closing = self._closing_marks([k for k, token in enumerate(tokens) if token == '"'])

    def separators(self) -> list[str]:
        """Return them."""
        for k in range(len(self._tokens)):
            self._bind(k)
        found = [""] if self._tokens else []
        for k in range(1, len(self._tokens)):
            before, token = self._tokens[k - 1], self._tokens[k]
            wide = [_unspaced(before[-1:]), _unspaced(token[:1])]
            # Thai has spaces around digits and words of other scripts.
            if all(wide) or (any(wide) and self._code in _UNSPACED and self._code != "th"):
                found.append("")
            elif self._left[k] or self._right[k - 1]:
                # French has a space before these, at which no line may end.
                french = self._code == "fr" and (
                    (_FRENCH.match(token) is not None and not self._between_digits(k)) or token == "»" or before == "«"
                )
                found.append(NO_BREAK if french else "")
            else:
                found.append(" ")
        return found

    def _at(self, k: int) -> str:
        return self._tokens[k] if 0 <= k < len(self._tokens) else ""

    def _between_digits(self, k: int) -> bool:
        return self._at(k - 1)[-1:].isdigit() and self._at(k + 1)[:1].isdigit() and self._at(k) == ":"

    def _bind(self, k: int) -> None:
        token, left, right = self._tokens[k], self._left, self._right
        before, after = self._at(k - 1), self._at(k + 1)
        if token in _PAIRED and not (token == "“" and "„" in self._open):
            if token == "«" and self._open[-1:] == ["»"]:
                # German prints them the other way about.
                self._open.pop()
                left[k] = True
            else:
                self._open.append(token)
                right[k] = True
        elif token == "’" and self._apart and before[-1:].isalpha() and after[:1].isalpha() and "‘" not in self._open:
            left[k] = right[k] = True
        elif token in _CLOSING or token == "“":
            self._close(k, token)
        elif token in ("„", "‚", "¿", "¡"):
            if token in "„‚":
                self._open.append(token)
            right[k] = True
        elif token == '"':
            self._toggle(k)
        elif token in ("'", "`"):
            self._apostrophe(k)
        elif token == ":" and self._between_digits(k):
            left[k] = right[k] = True
        elif _LEFT.match(token):
            left[k] = k > 0
            # An ellipsis begins what it stands before.
            right[k] = k == 0 and token[0] in ".…"
        elif token == "--" or (token in _TIGHT and before[-1:].isalnum() and after[:1].isalnum()):
            left[k] = right[k] = True
        elif token in _CURRENCY and after[:1].isdigit():
            right[k] = True
        elif token == "#":
            right[k] = after[:1].isalnum()
        elif _CONTRACTION.match(token) and before[-1:].isalnum() and self._code not in ("fr", "it"):
            left[k] = True
        elif _ELISION.search(token) and after[:1].isalnum() and self._code in ("fr", "it"):
            right[k] = True
        elif token == "—" and self._code not in ("fr", "es"):
            left[k] = before[-1:].isalnum() or before[-1:] in '”’"'
            right[k] = left[k]

    def _close(self, k: int, token: str) -> None:
        """Bind a closing mark to the left; one that closes nothing and may open does that."""
        for place in range(len(self._open) - 1, -1, -1):
            opened = self._open[place]
            if _PAIRED.get(opened) == token or (opened == "„" and token in "“”") or (opened == "‚" and token in "‘’"):
                del self._open[place:]
                self._left[k] = True
                return
            if opened == token:
                del self._open[place:]
                self._left[k] = True
                return
        if token in "»”" and k + 1 < len(self._tokens) and (k == 0 or self._code in ("de", "sv", "fi", "da")):
            self._open.append(token)
            self._right[k] = True
        else:
            self._left[k] = True

    def _toggle(self, k: int) -> None:
        """Bind a straight quotation mark."""
        if k in self._closing:
            if '"' in self._open:
                self._open.remove('"')
            self._left[k] = True
        else:
            self._open.append('"')
            self._right[k] = True

    def _closing_marks(self, marks: Sequence[int]) -> set[int]:
        """Return the straight quotation marks that close: the likeliest choice by their places and their turns.

        A quotation may have begun in an earlier sentence, and may go on in the next one.
        """
        # Of the choices whose last mark opens, and of those whose last one closes: what speaks against the best one.
        best: list[tuple[float, list[int]]] = [(_BEGUN_EARLIER, []), (0.0, [])]
        for k in marks:
            against = self._against(k)
            best = [
                min(
                    (cost + against[closes] + (_OUT_OF_TURN if closes == before else 0.0), chosen + [k] * closes)
                    for before, (cost, chosen) in enumerate(best)
                )
                for closes in (0, 1)
            ]
        return set(min(best)[1])

    def _against(self, k: int) -> tuple[float, float]:
        """Return what speaks against opening, and against closing, at a mark."""
        before, after = self._at(k - 1), self._at(k + 1)
        # What is quoted is mostly longer than what it stands in.
        early = 2 * k < len(self._tokens)
        opens = 0.0 if early else _FAR
        closes = _FAR if early else 0.0
        if not after:
            opens += _NOTHING_TO_QUOTE
        elif _LEFT.match(after):
            opens += _OUT_OF_PLACE
        if not before:
            closes += _NOTHING_TO_QUOTE
        elif before[-1] in ".!?…":
            opens += _FAR
        elif before[-1] in ":;([-—" or (before == "," and after[:1].isupper()):
            closes += _OUT_OF_PLACE
        return opens, closes

    def _apostrophe(self, k: int) -> None:
        before, after = self._at(k - 1), self._at(k + 1)
        later = [place for place in self._single if place > k]
        if self._tokens[k] == "`":
            self._open.append("'")
            self._right[k] = True
        elif "'" in self._open:
            self._open.remove("'")
            self._left[k] = True
        elif k and before[-1:] in ".!?" and not self._apart:
            self._left[k] = True
        elif not self._apart or not (before[-1:].isalpha() and after[:1].isalpha()):
            if after.lower() in _SHORT_OF_ITS_LETTERS:
                self._right[k] = True
            elif later and not (before[-1:] == "s" and k and len(later) % 2 == 0):
                self._open.append("'")
                self._right[k] = True
            elif k and (before[-1:].isalnum() or not after):
                self._left[k] = True
            else:
                self._right[k] = True
        else:
            # Moses' rules of most languages divide a word at its apostrophe.
            self._left[k] = self._right[k] = True


def _unspaced(letter: str) -> bool:
    """Return whether a letter is of a script without spaces, or the punctuation of one."""
    code = ord(letter) if letter else 0
    return (
        0x3000 <= code <= 0x30FF
        or 0x3400 <= code <= 0x4DBF
        or 0x4E00 <= code <= 0x9FFF
        or 0xF900 <= code <= 0xFAFF
        or 0xFF00 <= code <= 0xFF65
        or 0x20000 <= code <= 0x3FFFF
        or 0x0E00 <= code <= 0x0E7F
    )
