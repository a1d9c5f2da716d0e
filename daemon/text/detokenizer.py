"""Detokenizer for every script: restores the spaces between the tokens of a sentence.

Signs are punctuation marks and symbols. The Unicode line-breaking class of a sign determines whether it attaches to the
word before it, to the word after it, or to neither: a line cannot begin with a sign that belongs to the word before it.
Quotation marks are paired, straight ones by position and adjacent tokens. A learned orthography takes precedence over
these rules.
"""

import unicodedata
from collections.abc import Sequence
from functools import cache, lru_cache
from itertools import chain, pairwise

import regex

from hierogram.daemon.text.orthography import Boundary, Orthography
from hierogram.daemon.text.tokenizer import SHORTENED_WORDS, SPACE, ZERO_WIDTH_SPACE, Apostrophe, Spacing, spacing

NO_BREAK = "\u00a0"
"""No-break space."""

_CLOSERS = {
    "“": "”", "‘": "’", "«": "»", "‹": "›", "„": "“”", "‚": "‘’", "»": "«»", "›": "‹›", "”": "”", "’": "’",
}  # fmt: skip
"""Closing quotation marks by opening mark."""
_OPENERS = frozenset("“‘«‹„‚")
_CONTRACTION = regex.compile(r"['’]\p{L}+\.?", regex.V1)
_ELISION = regex.compile(r"(?:[Qq][Uu]|[\p{L}--[aeiouàáâèéêìíîòóôùúûAEIOUÀÁÂÈÉÊÌÍÎÒÓÔÙÚÛ]])['’]$", regex.V1)
"""Elided word, such as `l'` or `qu'`. Excludes shortened words with a final vowel, such as `po'`."""
_EARLIER_COST, _POSITION_COST, _ALTERNATION_COST, _PUNCTUATION_COST, _EDGE_COST = 0.5, 1.0, 2.0, 2.5, 4.0
"""Costs of reading a straight quotation mark as opening or closing.

- `_EARLIER_COST`: the quotation began in an earlier sentence
- `_POSITION_COST`: the mark is in the wrong half of the sentence, or opens after the end of a sentence
- `_ALTERNATION_COST`: the previous mark has the same direction
- `_PUNCTUATION_COST`: the adjacent punctuation suggests the other direction
- `_EDGE_COST`: no token follows an opening mark or precedes a closing mark
"""

_ATTACHES_LEFT = regex.compile(
    r"[\p{Terminal_Punctuation}\p{Pe}\p{LB=CL}\p{LB=CP}\p{LB=EX}\p{LB=IS}\p{LB=NS}\p{LB=IN}\p{LB=PO}\u055d\u1a1e\u1a1f"
    r"[\p{Po}&&\p{LB=BA}]]",
    regex.V1,
)
_ATTACHES_RIGHT = regex.compile(r"[\p{Ps}\p{LB=OP}\p{LB=BB}]", regex.V1)
_BEFORE_NUMBER = regex.compile(r"[\p{LB=PR}--\\]", regex.V1)
_INVISIBLE = regex.compile(r"[\p{Mn}\p{Me}\p{Cf}]", regex.V1)
_NO_WORD_BEFORE = frozenset("&.…‥")
_DIVIDERS = frozenset("\u1361\u16eb\U0001039f\U000103d0\U00010100")


@lru_cache(maxsize=1 << 16)
def _visible_sign(token: str) -> str:
    visible = _INVISIBLE.sub("", token)
    return visible if len({*visible}) == 1 and not visible[0].isalnum() else ""


@cache
def _attaches_to_left(sign: str) -> bool:
    return _ATTACHES_LEFT.match(sign) is not None and _ATTACHES_RIGHT.match(sign) is None


class Detokenizer:
    """Detokenizer. If `zero_width`, zero-width spaces separate words in scripts such as Thai."""

    def __init__(self, apostrophe: Apostrophe, zero_width: bool, orthography: Orthography) -> None:
        self.apostrophe = apostrophe
        self.unspaced_separator = ZERO_WIDTH_SPACE if zero_width else ""
        self.orthography = orthography

    def separators(self, tokens: Sequence[str]) -> list[str]:
        """Return the separator before each token: "" (always for the first), a space, or a zero-width space."""
        spaces = [""] * len(tokens)
        for k, boundary in self.boundaries(tokens):
            spaces[k] = boundary.separator(self.orthography.joins)
        return spaces

    def join(self, tokens: Sequence[str]) -> str:
        """Join the tokens of a sentence into text, with the spelling and Unicode form of the corpus."""
        pieces = zip(self.separators(tokens), map(token_text, tokens), strict=True)
        return self.orthography.spell("".join(chain.from_iterable(pieces)))

    def boundaries(self, tokens: Sequence[str]) -> list[tuple[int, Boundary]]:
        """Return the boundaries between tokens, each with the next token's index. A `SPACE` has none."""
        positions = [k for k, token in enumerate(tokens) if token and token != SPACE]
        sentence = _Sentence(self, [tokens[k] for k in positions])
        boundaries = zip(pairwise(positions), sentence.boundaries(), strict=False)
        return [(k, boundary) for (before, k), boundary in boundaries if SPACE not in tokens[before + 1 : k]]

    def observe(self, text: str, tokens: Sequence[str]) -> list[tuple[int, Boundary, str]]:
        """Return the `boundaries` of the tokens of a text, each with the spaces of the text there, or "".

        The list is empty if the tokenizer changed the text, because the spaces cannot be found then.
        """
        gaps: list[str] = []
        position = 0
        for token in tokens:
            start = position
            while token != SPACE and not text.startswith(token, position):
                if position == len(text) or not (text[position].isspace() or text[position] == ZERO_WIDTH_SPACE):
                    return []
                position += 1
            gaps.append(text[start:position])
            position += len(token) * (token != SPACE)
        return [(k, boundary, gaps[k]) for k, boundary in self.boundaries(tokens)]


def token_text(token: str) -> str:
    """Return the text of a token, which is a space for `SPACE`."""
    return " " if token == SPACE else token


def find_unpaired(tokens: Sequence[str]) -> set[int]:
    """Return the indices of quotation marks and brackets without a partner."""
    waiting: list[int] = []
    unpaired: set[int] = set()
    for k, token in enumerate(tokens):
        closes = [position for position in waiting if _is_pair(tokens[position], token)]
        if closes:
            unpaired.update(position for position in waiting if position > closes[-1])
            waiting = [position for position in waiting if position < closes[-1]]
        elif token in _QUOTATION_MARKS or (len(token) == 1 and unicodedata.category(token) in ("Ps", "Pe")):
            waiting.append(k)
    return unpaired.union(waiting)


_QUOTATION_MARKS = frozenset((*_CLOSERS, '"')) - {"’"}


def _is_pair(opening: str, closing: str) -> bool:
    if opening in _QUOTATION_MARKS:
        return closing in _CLOSERS.get(opening, '"')
    return unicodedata.category(opening) == "Ps" and len(closing) == 1 and unicodedata.category(closing) == "Pe"


def find_repeated(tokens: Sequence[str]) -> set[int]:
    """Return indices of repeated punctuation, and of marks such as a comma beside a full stop."""
    ends = [(len(token) == 1 and _TERMINAL.match(token), _STOP.match(token) is not None) for token in tokens]
    return {
        k + (before == token or is_stop)
        for k, ((is_end, is_stop), (next_is_end, next_is_stop)) in enumerate(pairwise(ends))
        if is_end and next_is_end and ((before := tokens[k]) == (token := tokens[k + 1]) or is_stop != next_is_stop)
    }


_TERMINAL, _STOP = regex.compile(r"\p{Terminal_Punctuation}"), regex.compile(r"\p{STerm}")


class _Sentence:
    """Tokens of a sentence. `_left` and `_right` are True for tokens that attach to the left or right."""

    def __init__(self, detokenizer: Detokenizer, tokens: Sequence[str]) -> None:
        self._detokenizer = detokenizer
        self._tokens = tokens
        self._left = [False] * (len(tokens) + 1)
        self._right = [False] * (len(tokens) + 1)
        self._open: list[str] = []
        self._single = [k for k, token in enumerate(tokens) if token in ("'", "`")]
        self._closing = self._find_closing_marks([k for k, token in enumerate(tokens) if token == '"'])

    def boundaries(self) -> list[Boundary]:
        for k in range(len(self._tokens)):
            self._attach(k)
        boundaries = []
        for k in range(1, len(self._tokens)):
            kinds = self._kind(k - 2, -1), self._kind(k - 1, -1), self._kind(k, 0), self._kind(k + 1, 0)
            boundaries.append(Boundary(kinds, self._left[k], self._right[k - 1], self._space(k)))
        return boundaries

    def _kind(self, k: int, edge: int) -> str:
        """Return the kind of a token: its sign (up to 2 characters), or the class of its character at `edge`.

        A suffix `<` means that the token attaches to the left, `>` that it attaches to the right. Returns "" if `k` is
        outside the sentence.
        """
        if not (token := self._at(k)):
            return ""
        kind = self._sign(k)[:2] or _find_class(token[edge])
        return kind + "<" * self._left[k] + ">" * self._right[k]

    def _space(self, k: int) -> str:
        before, token = self._tokens[k - 1], self._tokens[k]
        last, first = before[-1], token[0]
        if last >= "\u0e00" or first >= "\u0e00":
            sides = {spacing(last), spacing(first)}
            if Spacing.NEVER in sides or sides == {Spacing.PHRASES}:
                # Use zero-width spaces only in scripts such as Thai. Chinese and Japanese have no separators, and
                # Tibetan marks syllables itself.
                is_separated = _ZERO_WIDTH.match(last) and _ZERO_WIDTH.match(first)
                return self._detokenizer.unspaced_separator if is_separated else ""
            if last == ZERO_WIDTH_SPACE or (last in _DIVIDERS and before[-2:-1].isalpha()):
                return ""
        return " "

    def _at(self, k: int) -> str:
        return self._tokens[k] if 0 <= k < len(self._tokens) else ""

    def _sign(self, k: int) -> str:
        """Return the sign of a token, possibly repeated, without invisible characters. "" for other tokens."""
        token = self._tokens[k]
        sign = "" if token.isalnum() else token if len(token) == 1 else _visible_sign(token)
        return "" if sign[:1] in self._detokenizer.orthography.letters else sign

    def _attach(self, k: int) -> None:
        token, left, right = self._sign(k), self._left, self._right
        before, after = self._at(k - 1), self._at(k + 1)
        apostrophe = self._detokenizer.apostrophe
        if not token:
            token = self._tokens[k]
            if apostrophe is Apostrophe.BEGINS_WORD and _CONTRACTION.fullmatch(token):
                left[k] = before[-1:].isalnum() and token[1:].lower() not in SHORTENED_WORDS
            elif apostrophe is Apostrophe.ENDS_WORD and _ELISION.search(token):
                right[k] = after[:1].isalnum()
        elif token in _CLOSERS:
            self._attach_quote(k, token)
        elif token == '"':
            self._open_or_close(k, token, k not in self._closing)
        elif token in ("'", "`"):
            self._attach_apostrophe(k)
        elif token == "—":
            left[k] = right[k] = before[-1:].isalnum() or before[-1:] in '”’"'
        elif (
            token == "--"
            or (token in "/_" and before[-1:].isalnum() and after[:1].isalnum())
            or (token in ":–‒−" and before[-1:].isdigit() and after[:1].isdigit())
        ):
            left[k] = right[k] = True
        elif token == "#":
            right[k] = after[:1].isalnum()
        else:
            left[k] = k > 0 and _attaches_to_left(token[0])
            # A currency sign after a number belongs to this number, even if another number follows: 5 € 6 €.
            number = after[:1].isdigit() and not before[-1:].isdigit() and _BEFORE_NUMBER.match(token)
            begins = k == 0 and token[0] in _NO_WORD_BEFORE
            right[k] = bool(_ATTACHES_RIGHT.match(token) or (number and not left[k]) or begins)

    def _attach_quote(self, k: int, token: str) -> None:
        for index in reversed(range(len(self._open))):
            if token in _CLOSERS.get(self._open[index], ""):
                del self._open[index:]
                self._left[k] = True
                return
        pair = [mark for mark in self._tokens if mark == token or mark in _CLOSERS[token]]
        # Languages such as German and Swedish begin quotations with » and ”.
        begins = k + 1 < len(self._tokens) and (k == 0 or (len(pair) % 2 == 0 and pair[:1] == [token]))
        if token in _OPENERS or (begins and not {"“", "‘"}.intersection(self._tokens)):
            self._open_or_close(k, token, opens=True)
        else:
            self._left[k] = True

    def _open_or_close(self, k: int, sign: str, opens: bool) -> None:
        if opens:
            self._open.append(sign)
            self._right[k] = True
        else:
            if sign in self._open:
                self._open.remove(sign)
            self._left[k] = True

    def _find_closing_marks(self, marks: Sequence[int]) -> set[int]:
        # Keep one assignment with the lowest cost for each direction of the last mark, because the next cost depends
        # only on this direction.
        best: list[tuple[float, list[int]]] = [(_EARLIER_COST, []), (0.0, [])]
        for k in marks:
            costs = self._direction_costs(k)
            best = [
                min(
                    (cost + costs[closes] + (_ALTERNATION_COST if closes == before else 0.0), chosen + [k] * closes)
                    for before, (cost, chosen) in enumerate(best)
                )
                for closes in (0, 1)
            ]
        return set(min(best)[1])

    def _direction_costs(self, k: int) -> tuple[float, float]:
        """Return the costs of an opening and of a closing mark."""
        before, after = self._at(k - 1), self._at(k + 1)
        # Expect opening marks in the first half, because a quotation is usually longer than the text around it.
        early = 2 * k < len(self._tokens)
        opens = 0.0 if early else _POSITION_COST
        closes = _POSITION_COST if early else 0.0
        if not after:
            opens += _EDGE_COST
        elif _attaches_to_left(after[0]):
            opens += _PUNCTUATION_COST
        if not before:
            closes += _EDGE_COST
        elif before[-1] in ".!?…":
            opens += _POSITION_COST
        elif before[-1] in ":;([-—" or (before == "," and after[:1].isupper()):
            closes += _PUNCTUATION_COST
        return opens, closes

    def _attach_apostrophe(self, k: int) -> None:
        before, after = self._at(k - 1), self._at(k + 1)
        is_open = "'" in self._open
        if is_open or self._tokens[k] == "`" or any(position > k for position in self._single):
            self._open_or_close(k, "'", opens=not is_open or self._tokens[k] == "`")
        else:
            inside = before[-1:].isalpha() and after[:1].isalpha()
            self._left[k] = inside or (k > 0 and (before[-1:].isalnum() or before[-1:] in ".!?" or not after))
            self._right[k] = inside or not self._left[k]


@cache
def _find_class(letter: str) -> str:
    """Return the class of a character: `a` or `A` for letters, `0` for digits, else the character.

    It is `P` or `N` for letters and signs of scripts without spaces between words, see `orthography._LETTER_KINDS`.
    """
    if letter.isdigit():
        return "0"
    used = spacing(letter)
    if used is not Spacing.WORDS:
        return "P" if used is Spacing.PHRASES else "N"
    if letter.isalpha() or unicodedata.category(letter).startswith("M"):
        return "A" if letter.isupper() else "a"
    return letter


_ZERO_WIDTH = regex.compile(
    r"[[\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}\p{Tai_Tham}\p{Tai_Le}\p{New_Tai_Lue}\p{Javanese}\p{Balinese}]"
    r"&&[\p{L}\p{M}\u104c-\u104f]]",
    regex.V1,
)
