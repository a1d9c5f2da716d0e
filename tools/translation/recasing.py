"""Case of a translated sentence, from the case of its source and the usual forms of its words."""

import re
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from enum import Enum, auto
from typing import NamedTuple

from hierogram.tools.translation.casing import Casing, all_capital, is_capital, is_lower, is_mixed, is_upper

_ENDS, _DOTS = frozenset(".!?…。！？؟।።։"), frozenset(".…")
_OPENING, _CLOSING = frozenset("([{（［【〔"), frozenset(")]}）］】〕")
_DOUBLE, _SINGLE = frozenset('"“”„«»「」『』《》〈〉'), frozenset("'‘’‚‹›`")
_QUOTES = _DOUBLE | _SINGLE
_DASHES, _COLONS, _COMMAS = frozenset("-–—―‐¿¡"), frozenset(":："), frozenset(",，、")
_MIN_TITLE_LETTERS = 4
"""Minimum number of letters of a word that is capitalized in a title."""
_NUMBER = re.compile(r"\d+(?P<sign>[.)])?|[^\W\d_]")
"""Number or letter of a list item, with or without its punctuation mark."""


Links = Sequence[Sequence[int]]
"""Positions of the target words that are linked to each source word."""


class StartContext(Enum):
    """Context before a word that may begin with a capital because of its position."""

    SENTENCE = auto()
    """Beginning of the text that is recased: a sentence, or a group of sentences."""
    NEXT_SENTENCE = auto()
    """Sentence-final punctuation mark."""
    QUOTE = auto()
    BRACKET = auto()
    ITEM = auto()
    """Number followed by a mark, as in `1.` and `2)`."""
    NUMBER = auto()
    """Number at the beginning of a sentence or list item."""
    SIGN = auto()
    """Colon, dash, ellipsis, or quotation that ends in a mark such as `?`."""


_BEGINNINGS = (StartContext.SENTENCE, StartContext.NEXT_SENTENCE, StartContext.ITEM)


class SourceWord(NamedTuple):
    """Source word, and its form in the grammar (`known`). `kept` words are not translated."""

    text: str
    known: str
    kept: bool = False
    is_tag: bool = False


class _Case(Enum):
    NOTHING = auto()
    LOWER = auto()
    CAPITAL = auto()
    UPPER = auto()


@dataclass(frozen=True, slots=True)
class Recaser:
    """Recaser of translations for one language pair."""

    source: Casing
    target: Casing

    def recase(
        self, words: Sequence[str], units: Sequence[SourceWord], linked: Links, given: Collection[int] = ()
    ) -> list[str]:
        """Return the target words of a sentence with their case.

        - Words are in capitals if the source sentence, or the linked source word for emphasis, is in capitals.
        - The first word of a sentence, quotation or bracket has the case of the source word at the same position
          if the corpus usually has that source word in lowercase. Otherwise, the punctuation decides.
        - Within a sentence, a capital is copied to the longest linked word if the corpus does not have the source
          word with a capital, as in titles, and neither language capitalizes nouns.
        - Any other word has its form within sentences of the corpus.
        - Sentences do not begin with a capital if the orthography has no such capitals.

        The first target word of a kept word is unchanged. `given` contains the positions of target words from a
        glossary or markup, which keep their capitals.
        """
        protected = {linked[i][0] for i, unit in enumerate(units) if unit.kept}
        if all_capital([unit.text for unit in units if not unit.kept]):
            return [word if j in protected else self.target.upper(word) for j, word in enumerate(words)]
        sentence = _Sentence(self, words, units, linked, given)
        return [word if j in protected else sentence.cased(j, word) for j, word in enumerate(words)]

    def case_of(self, unit: SourceWord, start: StartContext | None) -> _Case:
        """Return the case that a source word gives to its translation, depending on its position."""
        word = unit.text
        if unit.kept or any(map(str.isdigit, word)) or is_mixed(word):
            return _Case.NOTHING
        if is_lower(word):
            return _Case.LOWER
        forms = self.source.forms.get(self.source.lower(word))
        if sum(map(str.isalpha, word)) > 1 and is_upper(word):
            emphasized = word not in forms if forms else unit.known != word
            return _Case.UPPER if emphasized else _Case.NOTHING
        if not is_capital(word):
            return _Case.NOTHING
        if start is not None:
            copied = forms[0] != word if forms else not self.source.nouns or unit.known != word
        elif self.source.nouns or sum(map(str.isalpha, word)) < 2:
            copied = False
        else:
            copied = word not in forms if forms else unit.known != word
        return _Case.CAPITAL if copied else _Case.NOTHING


class _Sentence:
    def __init__(
        self, recaser: Recaser, words: Sequence[str], units: Sequence[SourceWord], linked: Links, given: Collection[int]
    ) -> None:
        self._target = recaser.target
        self._words = words
        self._given = given
        self._units = units
        self._sources: list[list[int]] = [[] for _ in words]
        for i, targets in enumerate(linked):
            for j in targets:
                self._sources[j].append(i)
        kept = {i for i, unit in enumerate(units) if unit.kept}
        tags = {i for i in kept if units[i].is_tag}
        protected = {linked[i][0] for i in kept}
        self._source_starts = dict(_starts([unit.text for unit in units], kept, tags))
        self._starts = dict(_starts(words, protected, {linked[i][0] for i in tags}))
        self._cases = [recaser.case_of(unit, self._source_starts.get(i)) for i, unit in enumerate(units)]
        self._copied: dict[int, _Case] = {}
        for i, targets in enumerate(linked):
            worded = [j for j in targets if j not in protected and any(map(str.isalpha, words[j]))]
            if self._cases[i] is _Case.UPPER:
                self._copied |= dict.fromkeys(worded, _Case.UPPER)
            elif self._cases[i] is _Case.CAPITAL and i not in self._source_starts and worded and not self._target.nouns:
                # Choose the longest word, since titles do not capitalize articles.
                longest = max(worded, key=lambda j: (len(words[j]), j))
                if len(words[longest]) >= _MIN_TITLE_LETTERS:
                    self._copied.setdefault(longest, _Case.CAPITAL)
        self._never_capitalized = [j for j, word in enumerate(words) if self._target.is_never_capitalized(word)]

    def cased(self, j: int, word: str) -> str:
        if not any(map(str.isalpha, word)):
            return word
        form = self._mid_sentence(j, word)
        copied = self._copied.get(j)
        if copied is _Case.UPPER:
            return self._target.upper(form)
        if j in self._never_capitalized:
            return form
        start = self._starts.get(j)
        if start is None and j - 1 in self._never_capitalized:
            start = self._starts.get(j - 1)
        begins = start is not None and self._begins(j, start)
        return self._target.capitalize(form) if begins or copied is _Case.CAPITAL else form

    def _mid_sentence(self, j: int, word: str) -> str:
        target, sources = self._target, self._sources[j]
        if j in self._given and target.lower(word) != word:
            return word
        if is_upper(word) and any(self._units[i].text == word for i in sources):
            # Do not replace an acronym such as IT by a word in lowercase.
            return word
        if not target.forms or target.nouns or target.lower(word) in target.forms or not is_capital(word):
            return target.mid_sentence(word)
        # The corpus has this word only at the beginning of sentences, so the case of the source words decides.
        translated = [i for i in sources if self._units[i].text != word and self._cases[i] is _Case.LOWER]
        return target.lower(word) if sources and translated == sources else word

    def _begins(self, j: int, start: StartContext) -> bool:
        if not self._target.capital_sentences:
            return False
        source_position = self._source_position(j, start)
        case = _Case.NOTHING if source_position is None else self._cases[source_position]
        if case is not _Case.NOTHING:
            return case is not _Case.LOWER
        if start is StartContext.SENTENCE:
            return self._target.capital_fragments or _is_end(self._words)
        if start is StartContext.QUOTE:
            return self._is_speech(j)
        if start is StartContext.BRACKET:
            inside = self._enclosed(j, _CLOSING)
            return j + len(inside) < len(self._words) and _is_end(inside)
        return start not in (StartContext.SIGN, StartContext.NUMBER)

    def _source_position(self, j: int, start: StartContext) -> int | None:
        source_starts = self._source_starts
        if start is StartContext.SENTENCE:
            return next(iter(source_starts), None)
        source_starts = {i: context for i, context in source_starts.items() if context is not StartContext.SENTENCE}
        before = j - 1
        while before >= 0 and not is_word(self._words[before]):
            for i in self._sources[before]:
                after = next((k for k in range(i + 1, len(self._units)) if is_word(self._units[k].text)), None)
                if not is_word(self._units[i].text) and after in source_starts:
                    return after
            before -= 1
        sources = [i for i, context in source_starts.items() if context is start]
        targets = [k for k, context in self._starts.items() if context is start]
        if len(sources) == len(targets) and j in targets:
            return sources[targets.index(j)]
        return next((i for i in self._sources[j] if i in source_starts), None)

    def _enclosed(self, j: int, closing: Collection[str]) -> Sequence[str]:
        end = next((k for k in range(j, len(self._words)) if _is_sign(self._words[k], closing)), len(self._words))
        return self._words[j:end]

    def _is_speech(self, j: int) -> bool:
        quoted = self._enclosed(j, _QUOTES)
        after = self._words[j + len(quoted) :]
        several = sum(map(is_word, quoted)) > 1
        before = next((word for word in reversed(self._words[:j]) if not _is_sign(word, _QUOTES)), "")
        if _is_end(quoted):
            return bool(several and after) or _is_sign(before, _COLONS | _COMMAS)
        return several and _is_sign(before, _COLONS) and not any(map(is_word, after))


def is_word(token: str) -> bool:
    """Check if a token has a letter or a digit."""
    return any(map(str.isalnum, token))


def _is_sign(token: str, signs: Collection[str]) -> bool:
    return bool(token) and all(letter in signs for letter in token)


def _is_end(tokens: Sequence[str]) -> bool:
    """Check if tokens end with the end of a sentence, before any quotation marks and closing brackets."""
    return "".join(tokens).rstrip("".join(_QUOTES | _CLOSING))[-1:] in tuple(_ENDS)


def _starts(
    tokens: Sequence[str], protected: Collection[int], tags: Collection[int]
) -> Iterator[tuple[int, StartContext]]:
    state: StartContext | None = StartContext.SENTENCE
    number: re.Match[str] | None = None
    open_quotes: set[frozenset[str]] = set()
    for k, token in enumerate(tokens):
        if k in tags:
            continue
        if k in protected or is_word(token):
            number = _NUMBER.fullmatch(token) if state in _BEGINNINGS and k not in protected else None
            is_letter = number is not None and token.isalpha()
            if state is not None and not (is_letter and tokens[k + 1 : k + 2] == [")"]):
                yield k, state
            state = None
            if number is not None and not is_letter:
                state = StartContext.ITEM if number["sign"] else StartContext.NUMBER
        elif (
            number is not None
            and state in (None, StartContext.NUMBER)
            and (token == ")" or (number.group().isdigit() and (token in _COLONS or token in (".", "）"))))
        ):
            state, number = StartContext.ITEM, None
        elif _is_sign(token, _QUOTES):
            state = _after_quote(token, tokens[k + 1 :], tokens[k - 1] if k else "", state, open_quotes)
        else:
            state = _after(token, state)


def _after_quote(
    token: str, after: Sequence[str], before: str, state: StartContext | None, open_quotes: set[frozenset[str]]
) -> StartContext | None:
    """Return the context after a quotation mark or apostrophe, and update `open_quotes`."""
    kind = _SINGLE if _is_sign(token, _SINGLE) else _DOUBLE
    if kind in open_quotes:
        open_quotes.remove(kind)
        if state is StartContext.NEXT_SENTENCE:
            # After a question mark in a quotation, the sentence may continue: "Who?" she asks.
            return state if before == "." else StartContext.SIGN
        return state if state is StartContext.SENTENCE else None
    if token == "’" or (token == "'" and "'" not in after):
        return state
    open_quotes.add(kind)
    return state if state in _BEGINNINGS else StartContext.QUOTE


def _after(token: str, state: StartContext | None) -> StartContext | None:
    if state in (StartContext.SENTENCE, StartContext.ITEM):
        return state
    if token == "…" or (len(token) > 1 and _is_sign(token, _DOTS)):
        return StartContext.SIGN
    if _is_sign(token, _ENDS):
        return StartContext.NEXT_SENTENCE
    if _is_sign(token, _OPENING):
        return state if state is StartContext.NEXT_SENTENCE else StartContext.BRACKET
    if _is_sign(token, _CLOSING):
        return state if state is StartContext.NEXT_SENTENCE else None
    if _is_sign(token, _COLONS | _DASHES):
        return state or StartContext.SIGN
    return None if state is StartContext.NUMBER else state
