"""Detokenizer for every script: decides on the space between the tokens of a sentence.

The Unicode line-breaking class of a sign determines whether it attaches to the word before it, to the word after it, or
to neither: a line cannot begin with a sign that belongs to the word before it. Straight quotation marks are paired by
position. `SPACED_SIGNS` lists languages with a space before certain signs.
"""

from collections.abc import Sequence
from enum import Enum
from functools import cache, lru_cache

import regex

from hierogram.daemon.text.tokenizer import SHORT_OF_LETTERS, SPACE, ZERO_WIDTH_SPACE, Apostrophe, Spacing, spacing

NO_BREAK = "\u00a0"

SPACED_SIGNS = {
    "fr": (";:!?%»", NO_BREAK),
    "mr": (":", " "),
    "ne": ("।॥", " "),
    "pa": ("।॥", " "),
    "lah": ("۔", " "),
    "pnb": ("۔", " "),
    "skr": ("۔", " "),
}
"""Signs with a space before them, and the space, by language."""

_PAIRED = {"“": "”", "‘": "’", "«": "»", "‹": "›"}
_CLOSING = {*_PAIRED.values()}
_CONTRACTION = regex.compile(r"['’]\p{L}+\.?", regex.V1)
_ELISION = regex.compile(r"\p{L}['’]$", regex.V1)
_BEGUN_EARLIER, _FAR, _OUT_OF_TURN, _OUT_OF_PLACE, _NOTHING_TO_QUOTE = 0.5, 1.0, 2.0, 2.5, 4.0
"""Costs of assignments of a straight quotation mark.

In this order: it closes a quotation from an earlier sentence; it is in the wrong half of the sentence; it opens or
closes like the mark before it; adjacent punctuation contradicts it; it has no adjacent token.
"""

_BEFORE = regex.compile(
    r"[\p{Terminal_Punctuation}\p{Pe}\p{LB=CL}\p{LB=CP}\p{LB=EX}\p{LB=IS}\p{LB=NS}\p{LB=IN}\p{LB=PO}\u055d\u1a1e\u1a1f"
    r"[\p{Po}&&\p{LB=BA}]]",
    regex.V1,
)
_AFTER = regex.compile(r"[\p{Ps}\p{LB=OP}\p{LB=BB}]", regex.V1)
_BEFORE_NUMBER = regex.compile(r"[\p{LB=PR}--\\]", regex.V1)
_INVISIBLE = regex.compile(r"[\p{Mn}\p{Me}\p{Cf}]", regex.V1)
_BETWEEN_WORDS = frozenset("/_")
_BETWEEN_NUMBERS = frozenset(":–‒−")
_NO_WORD_BEFORE = frozenset("&.…‥")
_DIVIDERS = frozenset("\u1361\u16eb\U0001039f\U000103d0\U00010100")


class Neighbor(Enum):
    """Neighbor that a sign attaches to. `NUMBER`: the next token, if it is a number."""

    NEITHER = 0
    BEFORE = 1
    AFTER = 2
    NUMBER = 3


@lru_cache(maxsize=1 << 16)
def _cached_sign(token: str) -> str:
    shown = _INVISIBLE.sub("", token)
    return shown if len({*shown}) == 1 and not shown[0].isalnum() else ""


def extract_sign(token: str) -> str:
    """Return a token without invisible characters if it is a sign, possibly repeated, else an empty string."""
    return "" if token.isalnum() else token if len(token) == 1 else _cached_sign(token)


@cache
def find_neighbor(sign: str) -> Neighbor:
    """Return the neighbor that a sign attaches to, by the sign's first character."""
    if _AFTER.match(sign):
        return Neighbor.AFTER
    if _BEFORE.match(sign):
        return Neighbor.BEFORE
    return Neighbor.NUMBER if _BEFORE_NUMBER.match(sign) else Neighbor.NEITHER


class Detokenizer:
    """Detokenizer of one language.

    With `zero_width`, a zero-width space separates the words of scripts written without spaces.
    """

    def __init__(self, code: str, apostrophe: Apostrophe = Apostrophe.LETTER, zero_width: bool = True) -> None:
        self.code = code
        self.apostrophe = apostrophe
        self.between = ZERO_WIDTH_SPACE if zero_width else ""
        self.spaced, self.space = SPACED_SIGNS.get(code, ("", ""))

    def separators(self, tokens: Sequence[str]) -> list[str]:
        """Return the text before each token: a space, a zero-width space, or nothing."""
        return _Sentence(self, tokens).separators()

    def join(self, tokens: Sequence[str]) -> str:
        """Join tokens into text."""
        pieces = zip(self.separators(tokens), map(written, tokens), strict=True)
        return "".join(part for piece in pieces for part in piece)


def written(token: str) -> str:
    """Return the written form of a token."""
    return " " if token == SPACE else token


class _Sentence:
    """Tokens of one sentence.

    `_left` and `_right` mark the tokens that attach to the previous and to the next token.
    """

    def __init__(self, language: Detokenizer, tokens: Sequence[str]) -> None:
        self._language = language
        self._tokens = tokens
        self._left = [False] * (len(tokens) + 1)
        self._right = [False] * (len(tokens) + 1)
        self._open: list[str] = []
        self._single = [k for k, token in enumerate(tokens) if token in ("'", "`")]
        self._closing = self._closing_marks([k for k, token in enumerate(tokens) if token == '"'])

    def separators(self) -> list[str]:
        """Return the text before each token."""
        for k in range(len(self._tokens)):
            self._bind(k)
        return [self._separator(k) for k in range(len(self._tokens))]

    def _separator(self, k: int) -> str:
        if k == 0:
            return ""
        before, token = self._tokens[k - 1], self._tokens[k]
        if SPACE in (before, token) or not before or not token:
            return ""
        last, first = before[-1], token[0]
        if last >= "\u0e00" or first >= "\u0e00":
            sides = {spacing(last), spacing(first)}
            if Spacing.NEVER in sides or sides == {Spacing.PHRASES}:
                return self._between_words(last, first)
            if last == ZERO_WIDTH_SPACE or (last in _DIVIDERS and before[-2:-1].isalpha()):
                return ""
        if self._left[k] or self._right[k - 1]:
            language = self._language
            inside = self._left[k] and self._right[k]
            spaced = (token[0] in language.spaced and not inside) or (before == "«" and "»" in language.spaced)
            return language.space if spaced else ""
        return " "

    def _between_words(self, last: str, first: str) -> str:
        """Return the text between two words of a script without spaces.

        Scripts that mark syllables need no separator.
        """
        return self._language.between if _takes_zero_width(last) and _takes_zero_width(first) else ""

    def _at(self, k: int) -> str:
        return self._tokens[k] if 0 <= k < len(self._tokens) else ""

    def _bind(self, k: int) -> None:
        token, left, right = extract_sign(self._tokens[k]), self._left, self._right
        before, after = self._at(k - 1), self._at(k + 1)
        apostrophe = self._language.apostrophe
        if not token:
            token = self._tokens[k]
            if apostrophe is Apostrophe.BEGINS_WORD and _CONTRACTION.fullmatch(token):
                left[k] = before[-1:].isalnum() and token[1:].lower() not in SHORT_OF_LETTERS
            elif apostrophe is Apostrophe.ENDS_WORD and _ELISION.search(token):
                right[k] = after[:1].isalnum()
        elif token in _PAIRED and not (token == "“" and "„" in self._open):
            if token == "«" and self._open[-1:] == ["»"]:
                # German uses these marks in reverse order.
                self._open.pop()
                left[k] = True
            else:
                self._open.append(token)
                right[k] = True
        elif token in _CLOSING or token == "“":
            self._close(k, token)
        elif token in ("„", "‚"):
            self._open.append(token)
            right[k] = True
        elif token == '"':
            self._toggle(k)
        elif token in ("'", "`"):
            self._apostrophe(k)
        elif token == "--" or self._joins(token, before[-1:], after[:1]):
            left[k] = right[k] = True
        elif token == "—" and self._language.code not in ("fr", "es"):
            left[k] = right[k] = before[-1:].isalnum() or before[-1:] in '”’"'
        elif token == "#":
            right[k] = after[:1].isalnum()
        else:
            neighbor = find_neighbor(token[:1])
            left[k] = neighbor is Neighbor.BEFORE and k > 0
            # The number before a currency may already belong to another one: 5 € 6 €.
            number = neighbor is Neighbor.NUMBER and after[:1].isdigit() and not before[-1:].isdigit()
            right[k] = neighbor is Neighbor.AFTER or number or (k == 0 and token[0] in _NO_WORD_BEFORE)

    @staticmethod
    def _joins(sign: str, before: str, after: str) -> bool:
        """Return whether a sign joins the words on both sides, given the adjacent characters."""
        if sign in _BETWEEN_NUMBERS:
            return before.isdigit() and after.isdigit()
        return sign in _BETWEEN_WORDS and before.isalnum() and after.isalnum()

    def _close(self, k: int, token: str) -> None:
        """Attach a closing mark to the left. A mark without an opening partner opens a quotation if it can."""
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
        if token in "»”" and k + 1 < len(self._tokens) and (k == 0 or self._language.code in ("de", "sv", "fi", "da")):
            self._open.append(token)
            self._right[k] = True
        else:
            self._left[k] = True

    def _toggle(self, k: int) -> None:
        """Attach a straight quotation mark."""
        if k in self._closing:
            if '"' in self._open:
                self._open.remove('"')
            self._left[k] = True
        else:
            self._open.append('"')
            self._right[k] = True

    def _closing_marks(self, marks: Sequence[int]) -> set[int]:
        """Return the straight quotation marks that close: the cheapest assignment by position and alternation.

        A quotation may begin in an earlier sentence and may continue in the next one.
        """
        # Best assignments with their costs: one whose last mark opens, one whose last mark closes.
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
        """Return the costs of opening and of closing at a mark."""
        before, after = self._at(k - 1), self._at(k + 1)
        # A quotation is usually longer than the text around it.
        early = 2 * k < len(self._tokens)
        opens = 0.0 if early else _FAR
        closes = _FAR if early else 0.0
        if not after:
            opens += _NOTHING_TO_QUOTE
        elif find_neighbor(after[0]) is Neighbor.BEFORE:
            opens += _OUT_OF_PLACE
        if not before:
            closes += _NOTHING_TO_QUOTE
        elif before[-1] in ".!?…":
            opens += _FAR
        elif before[-1] in ":;([-—" or (before == "," and after[:1].isupper()):
            closes += _OUT_OF_PLACE
        return opens, closes

    def _apostrophe(self, k: int) -> None:
        """Attach an apostrophe token. The tokenizer separates paired apostrophes."""
        before, after = self._at(k - 1), self._at(k + 1)
        if self._tokens[k] == "`":
            self._open.append("'")
            self._right[k] = True
        elif "'" in self._open:
            self._open.remove("'")
            self._left[k] = True
        elif any(place > k for place in self._single):
            self._open.append("'")
            self._right[k] = True
        else:
            inside = before[-1:].isalpha() and after[:1].isalpha()
            self._left[k] = inside or (k > 0 and (before[-1:].isalnum() or before[-1:] in ".!?" or not after))
            self._right[k] = inside or not self._left[k]


@cache
def _takes_zero_width(letter: str) -> bool:
    return _ZERO_WIDTH.match(letter) is not None


_ZERO_WIDTH = regex.compile(
    r"[[\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\p{Tai_Tham}\p{Tai_Le}\p{New_Tai_Lue}\p{Javanese}\p{Balinese}]"
    r"&&[\p{L}\p{M}\u104c-\u104f]]",
    regex.V1,
)
