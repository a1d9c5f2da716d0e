"""Orthography of one side of a corpus: letter-like signs, spaces beside signs, and Unicode form.

Signs are punctuation marks and symbols. An orthography is learned once from raw text. It takes precedence over the
rules of the tokenizer and the detokenizer, which follow from Unicode properties. Without enough text, these rules apply
alone.
"""

import json
import unicodedata
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import NamedTuple

import regex

SOFT_HYPHEN = "\u00ad"
"""Invisible hyphenation point, which tokens omit."""
MAX_LINES = 2_000
"""Maximum number of lines from which an orthography is learned."""
_MIN_WORDS = 5
"""Minimum number of distinct words with a sign between letters, for the sign to be a letter."""
_MIN_SHARE = 0.005
"""Minimum number of uses of the sign between letters, divided by the number of words in the text."""
_MIN_INNER_SHARE = 0.3
"""Minimum share of the sign's uses that are between letters."""
_MIN_CORRECTED = 1.5
"""Net gain above which a context is learned (in observations) or a space becomes a token (in lines)."""
_MAX_WRONG_SHARE = 0.05
"""Maximum share of lines whose spaces are restored incorrectly."""
_MAX_SPELLINGS = 500

_SIGNS = r"[[\p{S}\p{Po}\p{Pc}\u2018\u2019]--[.,;\u2026\"/\\|<>@_]--[\p{LB=IN}\p{LB=BA}\p{LB=GL}]]"
# Exclude scripts without spaces, and capital letters after a sign: both also follow punctuation without a space.
_LETTER = rf"[\p{{L}}\p{{M}}{_SIGNS}--\p{{LB=SA}}--\p{{LB=ID}}]"
_INSIDE = regex.compile(rf"(?<={_LETTER}){_SIGNS}(?=[{_LETTER}--\p{{Lu}}])", regex.V1)
_SIGN = regex.compile(_SIGNS, regex.V1)
_GRAPHEME = regex.compile(r"[^\p{M}\s]\p{M}+|[^\p{M}\x00-\x7f]")
_LETTER_KINDS = frozenset("aA0PN")
"""Kinds of letters and digits. `P`: script with spaces between phrases. `N`: script without spaces."""


@dataclass(frozen=True, slots=True)
class Orthography:
    """Orthography of a language or a corpus.

    `letters` are signs that are letters. `joins` are separators of two tokens by context, see `Boundary`. `spaces` are
    contexts of one sign where spaces are irregular, so that they become `SPACE` tokens. `decomposed` is True if the
    corpus is in NFD; tokens are always in NFC. `spellings` are the spellings in the corpus by grapheme in NFC, or in
    NFD if `decomposed`.
    """

    letters: str = ""
    joins: Mapping[str, str] = field(default_factory=dict)
    spaces: Sequence[str] = ()
    decomposed: bool = False
    spellings: Mapping[str, str] = field(default_factory=dict)

    def to_json(self) -> str:
        """Return the orthography as JSON, the format of the store setting `orthographies`."""
        return json.dumps(asdict(self), ensure_ascii=False, sort_keys=True)

    def spell(self, text: str) -> str:
        """Convert text in NFC to Unicode form and spelling of the corpus."""
        if self.decomposed:
            text = unicodedata.normalize("NFD", text)
        return _GRAPHEME.sub(lambda match: self.spellings.get(match[0], match[0]), text) if self.spellings else text


class Boundary(NamedTuple):
    """Boundary between two tokens, and what the rules of the language do there.

    `kinds` are the kinds of the two tokens before and the two tokens after the boundary, "" outside the sentence. For
    kinds, see `detokenizer._Sentence._kind`. `attaches_left` and `attaches_right` are True if the rules attach the next
    token to the left, or the previous token to the right. Otherwise, the rules separate the tokens by `space`.

    A context is a string of kinds with spaces between them: all four kinds, the two inner kinds, or the kind of one
    adjacent sign with "" for the other token, as in ` ,<` for the space before a comma.
    """

    kinds: tuple[str, str, str, str]
    attaches_left: bool
    attaches_right: bool
    space: str

    @property
    def pair(self) -> str:
        """Context of the two inner kinds."""
        return " ".join(self.kinds[1:3])

    @property
    def sides(self) -> set[str]:
        """Contexts of each adjacent sign. Letters and digits have none."""
        before, after = self.kinds[1:3]
        return {side for sign, side in ((before, f"{before} "), (after, f" {after}")) if sign not in _LETTER_KINDS}

    def separator(self, joins: Mapping[str, str]) -> str:
        """Return the separator at the boundary: by the longest context in `joins`, else by the language rules."""
        learned = joins.get(" ".join(self.kinds), joins.get(self.pair))
        if learned is not None:
            return learned
        after = joins.get(f"{self.kinds[1]} ", "" if self.attaches_right else self.space)
        before = joins.get(f" {self.kinds[2]}", "" if self.attaches_left else self.space)
        return after and (before if after == self.space else after)


def learn_letters(lines: Iterable[str], excluded: str = "") -> str:
    """Return the signs that often occur between letters and so are letters, except `excluded`."""
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
    frequent = [sign for sign in sorted(inside) if sign not in excluded and kinds[sign] >= _MIN_WORDS]
    limits = {sign: max(_MIN_SHARE * words.total(), _MIN_INNER_SHARE * total[sign]) for sign in frequent}
    return "".join(sign for sign in frequent if inside[sign] >= limits[sign])


def learn_spellings(lines: Iterable[str]) -> tuple[bool, dict[str, str]]:
    """Return `decomposed` and `spellings` of the `Orthography` of raw lines, for the fewest `spellings`."""
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
    """Learn the joins of a corpus from boundaries, the text at each, and the joins of its language.

    A context is learned if it corrects at least 2 more observations than it spoils. Contexts of signs are learned
    first, then pairs of kinds, then all four kinds.
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
            restored = _count_restored(boundaries, joins)
            gaps = Counter(gap for _, gap in boundaries) if len(boundaries) - restored > _MIN_CORRECTED else Counter()
            for gap in sorted(gaps, key=lambda gap: (-gaps[gap], gap))[:2]:
                changed = joins | {context: gap}
                if (now := _count_restored(boundaries, changed)) - restored > _MIN_CORRECTED:
                    joins, restored = changed, now
    return joins


def _count_restored(observed: Iterable[tuple[Boundary, str]], joins: Mapping[str, str]) -> int:
    return sum(boundary.separator(joins) == gap for boundary, gap in observed)


def learn_spaces(lines: Sequence[Sequence[tuple[Boundary, str]]], joins: dict[str, str]) -> list[str]:
    """Return `Orthography.spaces`, given the boundaries of each line. Changes `joins` accordingly.

    The context with irregular spaces in most lines is added first, until the spaces of 95 % of the lines are restored.
    Beside letters of a script without spaces between words, all irregular contexts are added, because spaces are
    punctuation there.
    """
    spaces: list[str] = []
    while True:
        wrong_lines, failed, unspaced = _find_irregular_spaces(lines, joins, spaces)
        min_lines = _MIN_CORRECTED if failed > _MAX_WRONG_SHARE * len(lines) else len(lines)
        irregular = [side for side in wrong_lines if wrong_lines[side] > min_lines or side in unspaced]
        if not irregular:
            return spaces
        spaces.append(side := min(irregular, key=lambda side: (-wrong_lines[side], side)))
        for context in [*joins]:
            # Remove longer contexts of this side, because they would take precedence over the new join.
            pair = " ".join(context.split(" ")[-3:-1]) if context.count(" ") == 3 else context
            if pair.endswith(side) if side[0] == " " else pair.startswith(side):
                del joins[context]
        joins[side] = ""


def _find_irregular_spaces(
    lines: Sequence[Sequence[tuple[Boundary, str]]], joins: Mapping[str, str], spaces: Sequence[str]
) -> tuple[Counter[str], int, set[str]]:
    """Return lines with wrong spaces by context and in total, and contexts of unspaced scripts."""
    wrong_lines: Counter[str] = Counter()
    unspaced: set[str] = set()
    failed = 0
    for line in lines:
        wrong: set[str] = set()
        for boundary, gap in line:
            sides = boundary.sides
            if sides.isdisjoint(spaces) and not gap.strip(" ") and boundary.separator(joins) != gap:
                wrong |= sides
                if not {"P", "N"}.isdisjoint(boundary.kinds[1:3]):
                    unspaced |= sides
        wrong_lines.update(wrong)
        failed += bool(wrong)
    return wrong_lines, failed, unspaced
