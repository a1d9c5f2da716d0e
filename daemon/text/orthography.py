"""Orthography of one side of a corpus: letter-like signs, spaces beside signs, and the Unicode form of its text.

It is learned once from raw text and takes precedence over the rules of the tokenizer and the detokenizer, which follow
from Unicode properties. Without enough text, these rules apply alone.
"""

import json
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import NamedTuple

import regex

SOFT_HYPHEN = "\u00ad"
"""Invisible hyphenation point. Tokens omit it."""
MAX_LINES = 2_000
"""Number of lines from which an orthography is learned."""
_MIN_WORDS, _MIN_SHARE, _MIN_INNER_SHARE = 5, 0.005, 0.3
"""Minimum number of different words with a letter-like sign inside, their share, and the share of the sign's uses."""
_MIN_CORRECTED = 1.5
"""Number of observations that a context must correct to be learned."""
_MAX_WRONG_SHARE = 0.05
"""Maximum share of lines whose spaces are restored incorrectly."""
_MAX_SPELLINGS = 500

_SIGNS = r"[[\p{S}\p{Po}\p{Pc}\u2018\u2019]--[.,;\u2026\"/\\|<>@_]--[\p{LB=IN}\p{LB=BA}\p{LB=GL}]]"
# Letters of scripts without spaces between words, and capital letters, also follow punctuation without a space.
_LETTER = rf"[\p{{L}}\p{{M}}{_SIGNS}--\p{{LB=SA}}--\p{{LB=ID}}]"
_INSIDE = regex.compile(rf"(?<={_LETTER}){_SIGNS}(?=[{_LETTER}--\p{{Lu}}])", regex.V1)
_SIGN = regex.compile(_SIGNS, regex.V1)
_GRAPHEME = regex.compile(r"[^\p{M}\s]\p{M}+|[^\p{M}\x00-\x7f]")
_CLASSES = frozenset("aA0PN")
"""Kinds of letters and digits, see `Detokenizer`. `P` and `N` are letters of scripts without spaces between words."""


@dataclass(frozen=True, slots=True)
class Orthography:
    """Orthography of a language or a corpus.

    `letters` are signs that are letters. `joins` are texts between two tokens by context, see `Boundary`. `spaces` are
    sides of signs at which a space is a token, because the corpus is irregular. `decomposed` text is written in NFD,
    but tokens are in NFC. `spellings` are other written forms of graphemes in NFC, or in NFD if text is decomposed.
    """

    letters: str = ""
    joins: Mapping[str, str] = field(default_factory=dict)
    spaces: Sequence[str] = ()
    decomposed: bool = False
    spellings: Mapping[str, str] = field(default_factory=dict)

    def as_text(self) -> str:
        """Return the orthography as JSON."""
        return json.dumps(asdict(self), ensure_ascii=False, sort_keys=True)

    def spell(self, text: str) -> str:
        """Return text in NFC as the corpus writes it."""
        if self.decomposed:
            text = unicodedata.normalize("NFD", text)
        return _GRAPHEME.sub(lambda match: self.spellings.get(match[0], match[0]), text) if self.spellings else text


class Boundary(NamedTuple):
    """Boundary between two tokens.

    `kinds` are the kinds of two tokens before it and two tokens after it, empty beyond the sentence. `left` is True if
    the rules attach the next token to the left, `right` if they attach the previous token to the right. Otherwise,
    `space` separates the tokens. The boundary's contexts are strings of kinds separated by spaces: all four, the inner
    pair, and the sides of its signs, in which the other kind is empty.
    """

    kinds: tuple[str, str, str, str]
    left: bool
    right: bool
    space: str

    @property
    def pair(self) -> str:
        """Context of the tokens on both sides."""
        return " ".join(self.kinds[1:3])

    @property
    def sides(self) -> set[str]:
        """Sides of signs at the boundary."""
        before, after = self.kinds[1:3]
        return {side for sign, side in ((before, f"{before} "), (after, f" {after}")) if sign not in _CLASSES}

    def separator(self, joins: Mapping[str, str]) -> str:
        """Return the text at the boundary: by its context, else by the signs on both sides, else by the rules."""
        learned = joins.get(" ".join(self.kinds), joins.get(self.pair))
        if learned is not None:
            return learned
        after = joins.get(f"{self.kinds[1]} ", "" if self.right else self.space)
        before = joins.get(f" {self.kinds[2]}", "" if self.left else self.space)
        return after and (before if after == self.space else after)


def learn_letters(lines: Iterable[str], without: str = "") -> str:
    """Return the signs that are letters: they often occur between letters, in several words."""
    words = Counter(word for line in lines for word in line.split())
    total: Counter[str] = Counter()
    inside: Counter[str] = Counter()
    kinds: Counter[str] = Counter()
    for word, times in words.items():
        for sign in _SIGN.findall(word):
            total[sign] += times
        for sign in _INSIDE.findall(word):
            inside[sign] += times
            kinds[sign] += 1
    return "".join(
        sign
        for sign in sorted(inside)
        if sign not in without
        and kinds[sign] >= _MIN_WORDS
        and inside[sign] >= max(_MIN_SHARE * words.total(), _MIN_INNER_SHARE * total[sign])
    )


def learn_spellings(lines: Iterable[str]) -> tuple[bool, dict[str, str]]:
    """Return True if the text is NFD, and the graphemes that are written in another form."""
    seen: dict[str, Counter[str]] = defaultdict(Counter)
    for line in lines:
        if not unicodedata.is_normalized("NFC", line) or not unicodedata.is_normalized("NFD", line):
            for written in _GRAPHEME.findall(line):
                seen[unicodedata.normalize("NFC", written)][written] += 1
    usual_spelling = {composed_form: max(sorted(forms), key=forms.__getitem__) for composed_form, forms in seen.items()}
    composed = {composed_form: written for composed_form, written in usual_spelling.items() if composed_form != written}
    parts = {unicodedata.normalize("NFD", composed_form): written for composed_form, written in usual_spelling.items()}
    decomposed = {composed_form: written for composed_form, written in parts.items() if composed_form != written}
    smaller = min(composed, decomposed, key=len)
    return smaller is not composed, dict(sorted(smaller.items())[:_MAX_SPELLINGS])


def learn_joins(observed: Sequence[tuple[Boundary, str]], prior: Mapping[str, str]) -> dict[str, str]:
    """Return the joins of a corpus, from boundaries and the text at each.

    A context is learned if it corrects more observations than it spoils: first sides of signs, then pairs of kinds,
    then pairs with their neighbors.
    """
    joins = dict(prior)
    levels: Sequence[Callable[[Boundary], Iterable[str]]] = (
        lambda boundary: boundary.sides,
        lambda boundary: (boundary.pair,),
        lambda boundary: (" ".join(boundary.kinds),),
    )
    for contexts in levels:
        boundaries_by_context: dict[str, list[tuple[Boundary, str]]] = defaultdict(list)
        for boundary, gap in observed:
            for context in contexts(boundary):
                boundaries_by_context[context].append((boundary, gap))
        for context, boundaries in sorted(boundaries_by_context.items(), key=lambda item: (-len(item[1]), item[0])):
            right = _count_right(boundaries, joins)
            gaps = Counter(gap for _, gap in boundaries) if len(boundaries) - right > _MIN_CORRECTED else Counter()
            for gap in sorted(gaps, key=lambda gap: (-gaps[gap], gap))[:2]:
                changed = joins | {context: gap}
                if (now := _count_right(boundaries, changed)) - right > _MIN_CORRECTED:
                    joins, right = changed, now
    return joins


def _count_right(observed: Iterable[tuple[Boundary, str]], joins: Mapping[str, str]) -> int:
    return sum(boundary.separator(joins) == gap for boundary, gap in observed)


def learn_spaces(lines: Sequence[Sequence[tuple[Boundary, str]]], joins: dict[str, str]) -> list[str]:
    """Return the sides of signs with irregular spaces, and remove these spaces from the joins.

    Sides are added, most frequent first, until most lines are restored. Beside letters of a script without spaces
    between words, a space is punctuation, so that all irregular sides are added.
    """
    spaces: list[str] = []
    while True:
        wrong: Counter[str] = Counter()
        unspaced: set[str] = set()
        failed = 0
        for line in lines:
            sides: set[str] = set()
            for boundary, gap in line:
                boundary_sides = boundary.sides
                if boundary_sides.isdisjoint(spaces) and not gap.strip(" ") and boundary.separator(joins) != gap:
                    sides |= boundary_sides
                    if not {"P", "N"}.isdisjoint(boundary.kinds[1:3]):
                        unspaced |= boundary_sides
            wrong.update(sides)
            failed += bool(sides)
        often = _MIN_CORRECTED if failed > _MAX_WRONG_SHARE * len(lines) else len(lines)
        spaced_sides = [side for side in wrong if wrong[side] > often or side in unspaced]
        if not spaced_sides:
            return spaces
        spaces.append(side := min(spaced_sides, key=lambda side: (-wrong[side], side)))
        for context in [*joins]:
            # Drop the sign's other contexts at this side.
            pair = " ".join(context.split(" ")[-3:-1]) if context.count(" ") == 3 else context
            if pair.endswith(side) if side[0] == " " else pair.startswith(side):
                del joins[context]
        joins[side] = ""
