"""Case of words: mappings by language, usual forms in a corpus, and the case of a translated sentence."""

import re
import unicodedata
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from itertools import pairwise, takewhile
from typing import NamedTuple

from hierogram.daemon.text.languages import base_language

SENTENCE_BREAKS = frozenset(".!?…:;。！？\"'“”‘’«»„(-–—`")
"""A sentence may begin after a token that ends in one of these characters."""
_MIN_FORM_SHARE = 0.05
"""Minimum share of a form in its word's uses, and of capitals at sentence beginnings."""
_MIN_CAPITALIZED_SHARE = 0.15
"""Share of capitalized words above which nouns are capitalized. German news has 0.31, English 0.08."""
_NOUN_LANGUAGES = frozenset(("bar", "de", "gsw", "ksh", "lb", "nds", "pdc", "pfl", "stq"))
_DOTTED_I = frozenset(("az", "crh", "gag", "tr"))
"""Languages in which `i` and `ı` are different letters, each with its own capital."""
_DUTCH = frozenset(("af", "nl"))
_DUTCH_CLITIC = re.compile(r"['’‘`][a-z]")
"""Dutch words such as `'t`. At the beginning of a sentence, the next word is capitalized instead."""
_MIN_SENTENCES = 50
"""Minimum number of sentences for detecting that sentences begin without capitals."""
_GREEK = re.compile(r"[\u0370-\u03ff\u1f00-\u1fff]")
_ACCENTS = str.maketrans("", "", "\u0300\u0301\u0313\u0314\u0342")
_MIN_WORDS = 1_000
"""Minimum number of words within sentences for detecting that nouns are capitalized."""
_FINAL_MARK = re.compile(r"[.!?…。！？؟।።։]\W*$")
"""Sentence-final punctuation mark at the end of a text, with the quotation marks or brackets after it."""


@dataclass(frozen=True, slots=True)
class Casing:
    """Case rules of a language, and the forms of words within the sentences of a corpus."""

    forms: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Mid-sentence forms by lowercase word, most frequent first, of words with a capital somewhere."""
    language: str = ""
    """Language code without region, or "" if unknown."""
    nouns: bool = False
    """True if common nouns are capitalized, as in German."""
    capital_fragments: bool = True
    """True if a text without a final punctuation mark, such as a heading, begins with a capital."""
    capital_sentences: bool = True
    """False if the corpus shows that sentences begin in lowercase. True for scripts without case."""

    def mid_sentence(self, word: str) -> str:
        """Return the usual form of a word within sentences. Known forms and words without forms are unchanged."""
        forms = self.forms.get(self.lower(word))
        return word if not forms or word in forms else forms[0]

    def lower(self, word: str) -> str:
        """Return a word in lowercase."""
        if self.language in _DOTTED_I:
            word = word.replace("I", "ı").replace("İ", "i")
        return word.lower()

    def upper(self, word: str) -> str:
        """Return a word in capitals. Letters without case, such as Georgian letters, are unchanged."""
        if self.language in _DOTTED_I:
            word = word.replace("i", "İ")
        if _GREEK.search(word):
            # Greek capitals have no accents.
            word = unicodedata.normalize("NFC", unicodedata.normalize("NFD", word).translate(_ACCENTS))
        return "".join(letter.upper() if is_cased(letter) else letter for letter in word)

    def capitalize(self, word: str) -> str:
        """Return a word with its first letter capitalized. Words such as `3rd` and `iPhone` are unchanged."""
        first_letter = next((k for k, letter in enumerate(word) if _begins_word(letter)), len(word))
        letter, rest = word[first_letter : first_letter + 1], word[first_letter + 1 :]
        if not letter or not is_cased(letter) or is_mixed(word):
            return word
        if self.language in _DOTTED_I and letter == "i":
            return f"{word[:first_letter]}İ{rest}"
        if self.language in _DUTCH and word[first_letter : first_letter + 2] == "ij":
            return f"{word[:first_letter]}IJ{rest[1:]}"
        return word[:first_letter] + letter.title() + rest

    def uncapitalize(self, word: str) -> str:
        """Return a word in lowercase if only its first letter is a capital, else unchanged."""
        small = self.lower(word)
        return small if word == self.capitalize(small) else word

    def is_never_capitalized(self, word: str) -> bool:
        """Check if a word is never capitalized, such as Dutch `'t`."""
        return self.language in _DUTCH and _DUTCH_CLITIC.fullmatch(word) is not None


NO_CASING = Casing()


def default_casing(language: str | None) -> Casing:
    """Return casing by the rules of a language such as `de` or `de-AT`, without forms from a corpus."""
    base = base_language(language or "")
    return Casing(language=base, nouns=base in _NOUN_LANGUAGES)


def learn_casing(sentences: Iterable[str], language: str | None = None) -> Casing:
    """Learn casing from tokenized sentences. Words that may begin a sentence do not count as forms."""
    casing = default_casing(language)
    lines = [sentence for sentence in sentences if sentence]
    anywhere = {word for line in lines for word in line.split(" ")}
    beginning = {word for word in anywhere if word[-1:] in SENTENCE_BREAKS}
    pairs = (pair for line in lines for pair in pairwise(line.split(" ")))
    within = Counter(word for before, word in pairs if before not in beginning)
    capitals: dict[bool, list[bool]] = {False: [], True: []}
    for line in lines:
        if letter := first_cased(line):
            capitals[_FINAL_MARK.search(line) is not None].append(not letter.islower())
    fragments, complete = capitals[False], capitals[True]
    return replace(
        casing,
        forms=_forms(casing, anywhere, within),
        nouns=casing.nouns or _capitalizes_nouns(within),
        capital_fragments=2 * sum(fragments) >= len(fragments),
        capital_sentences=len(complete) < _MIN_SENTENCES or sum(complete) > _MIN_FORM_SHARE * len(complete),
    )


def learn_rule_casing(words: Sequence[str], within: Sequence[int], language: str | None = None) -> Casing:
    """Learn casing from words of rules. `within` counts occurrences that cannot begin a sentence."""
    casing = default_casing(language)
    counts = {word: count for word, count in zip(words, within, strict=True) if count}
    return replace(casing, forms=_forms(casing, set(words), counts))


def _forms(casing: Casing, anywhere: set[str], within: Mapping[str, int]) -> dict[str, tuple[str, ...]]:
    capital = {small for word in anywhere if (small := casing.lower(word)) != word}
    counted_forms: dict[str, list[tuple[int, str]]] = {}
    for word, count in within.items():
        if (small := casing.lower(word)) in capital:
            counted_forms.setdefault(small, []).append((-count, word))
    # A word that occurs only at the beginning of sentences is lowercase if it begins any sentence in lowercase.
    forms: dict[str, tuple[str, ...]] = {small: (small,) for small in capital & anywhere}
    for small, counted in counted_forms.items():
        total = sum(count for count, _ in counted)
        forms[small] = tuple(word for count, word in sorted(counted) if count <= _MIN_FORM_SHARE * total)
    return forms


def _capitalizes_nouns(within: Mapping[str, int]) -> bool:
    cased = [(word, count) for word, count in within.items() if len(word) > 1 and is_cased(word[0])]
    capital = sum(count for word, count in cased if is_capital(word))
    total = sum(count for word, count in cased if is_lower(word) or is_capital(word))
    return total >= _MIN_WORDS and capital > _MIN_CAPITALIZED_SHARE * total


def is_cased(letter: str) -> bool:
    """Check if a letter has a capital and a lowercase form that texts distinguish."""
    # Exclude Georgian, whose capitals are a style of print, and Cherokee, which is written in capitals only.
    cherokee = "\u13a0" <= letter <= "\u13ff" or "\uab70" <= letter <= "\uabbf"
    return letter.lower() != letter.title() and not cherokee and not "\u1c90" <= letter <= "\u1cbf"


def is_upper(word: str) -> bool:
    """Check if a word has capitals and no lowercase letters."""
    return "".join(letter for letter in word if letter.isalpha() and is_cased(letter)).isupper()


def is_lower(word: str) -> bool:
    """Check if a word has lowercase letters and no capitals."""
    return "".join(letter for letter in word if letter.isalpha() and is_cased(letter)).islower()


def is_capital(word: str) -> bool:
    """Check if a word begins with a capital and is not in capitals. A single capital letter also counts."""
    first = first_cased(word)
    return bool(first) and not first.islower() and (len(word) == 1 or not is_upper(word))


def is_mixed(word: str) -> bool:
    """Check if a word or a part of it, as in `pre-iPhone`, has a capital after a lowercase first letter."""
    parts = (part for part in re.split("[-'’‘·]", word) if part[:1].islower())
    return any(letter.isupper() and is_cased(letter) for part in parts for letter in part)


def _begins_word(letter: str) -> bool:
    """Check if a character can begin a word: letters and digits, but not modifier letters such as ʻ."""
    return letter.isalnum() and unicodedata.category(letter) != "Lm"


def first_cased(text: str) -> str:
    """Return the first letter or digit of a text if it has case, else an empty string."""
    first = next((letter for letter in text if _begins_word(letter)), "")
    return first if first and is_cased(first) else ""


def all_capital(words: Sequence[str]) -> bool:
    """Check if all words without digits are in capitals, and two or more have several letters."""
    letter_words = [word for word in words if any(map(str.isalpha, word)) and not any(map(str.isdigit, word))]
    long = [word for word in letter_words if sum(map(str.isalpha, word)) > 1]
    return len(long) > 1 and all(map(is_upper, letter_words))


_ENDS, _DOTS = frozenset(".!?…。！？؟।።։"), frozenset(".…")
_OPENING, _CLOSING = frozenset("([{（［【〔"), frozenset(")]}）］】〕")
_DOUBLE, _SINGLE = frozenset('"“”„«»「」『』《》〈〉'), frozenset("'‘’‚‹›`")
_QUOTES = _DOUBLE | _SINGLE
_DASHES, _COLONS, _COMMAS = frozenset("-–—―‐¿¡"), frozenset(":："), frozenset(",，、")
_MIN_TITLE_LETTERS = 4
"""Minimum number of letters of a word that is capitalized in a title."""
_NUMBER = re.compile(r"\d+(?P<sign>[.)])?|[^\W\d_]")
"""Number of a list item, with or without its punctuation mark, or its letter."""


Links = Sequence[Sequence[int]]
"""Positions of the target words that are linked to each source word."""


class StartContext(Enum):
    """Reason why a word may begin with a capital: the tokens directly before it."""

    SENTENCE = auto()
    """Beginning of the text that is recased: a sentence, or a group of sentences."""
    NEXT_SENTENCE = auto()
    """Sentence-final punctuation mark."""
    QUOTE = auto()
    """Opening quotation mark that does not begin a sentence."""
    BRACKET = auto()
    """Opening bracket that does not begin a sentence."""
    ITEM = auto()
    """Number or letter of a list item with its mark, as in `1.` and `b)`."""
    NUMBER = auto()
    """Number at the beginning of a sentence or list item."""
    SIGN = auto()
    """Colon, dash, ellipsis, or quotation that ends in a mark such as `?`."""


_BEGINNINGS = (StartContext.SENTENCE, StartContext.NEXT_SENTENCE, StartContext.ITEM)


class SourceWord(NamedTuple):
    """Source word, and the form that was looked up in the grammar. Kept words are copied."""

    text: str
    grammar_form: str
    is_kept: bool = False
    is_tag: bool = False
    """True for a kept word that is markup without words."""


class _CopiedCase(Enum):
    """Unusual case of a source word, which its translations get."""

    NONE = auto()
    LOWER = auto()
    """Lowercase. It only affects words at a start context, and words that the corpus lacks."""
    CAPITAL = auto()
    UPPER = auto()


def recase(
    source: Casing,
    target: Casing,
    words: Sequence[str],
    source_words: Sequence[SourceWord],
    linked: Links,
    given: Collection[int] = (),
) -> list[str]:
    """Return the target words with their case. The copies of kept words are unchanged.

    `linked` contains the positions in `words` that are linked to each source word. `given` contains the positions of
    target words from a glossary or markup, which keep their capitals.
    """
    protected = {linked[i][0] for i, source_word in enumerate(source_words) if source_word.is_kept}
    if all_capital([source_word.text for source_word in source_words if not source_word.is_kept]):
        return [word if j in protected else target.upper(word) for j, word in enumerate(words)]
    recaser = _Recaser(source, target, words, source_words, linked, given)
    return [word if j in protected else recaser.recased(j, word) for j, word in enumerate(words)]


@dataclass
class _Recaser:
    """Recasing by the case of linked source words, and by start contexts."""

    source: Casing
    target: Casing
    words: Sequence[str]
    source_words: Sequence[SourceWord]
    linked: Links
    given: Collection[int]

    def __post_init__(self) -> None:
        words, source_words, linked = self.words, self.source_words, self.linked
        # Positions of the source words that are linked to each target word.
        self._sources: list[list[int]] = [[] for _ in words]
        for i, targets in enumerate(linked):
            for j in targets:
                self._sources[j].append(i)
        kept = {i for i, source_word in enumerate(source_words) if source_word.is_kept}
        tags = {i for i in kept if source_words[i].is_tag}
        protected = {linked[i][0] for i in kept}
        self._source_starts = dict(_start_contexts([source_word.text for source_word in source_words], kept, tags))
        self._starts = dict(_start_contexts(words, protected, {linked[i][0] for i in tags}))
        self._cases = [
            self._copied_case(source_word, self._source_starts.get(i)) for i, source_word in enumerate(source_words)
        ]
        # Case copied to target words, by position. Only CAPITAL and UPPER.
        self._copied: dict[int, _CopiedCase] = {}
        for i, targets in enumerate(linked):
            worded = [j for j in targets if j not in protected and any(map(str.isalpha, words[j]))]
            case = self._cases[i]
            if case is _CopiedCase.UPPER:
                self._copied |= dict.fromkeys(worded, case)
            elif case is _CopiedCase.CAPITAL and i not in self._source_starts and worded and not self.target.nouns:
                # Choose the longest word, because titles do not capitalize articles.
                longest = max(worded, key=lambda j: (len(words[j]), j))
                if len(words[longest]) >= _MIN_TITLE_LETTERS:
                    self._copied.setdefault(longest, case)
        self._never_capitalized = [j for j, word in enumerate(words) if self.target.is_never_capitalized(word)]

    def _copied_case(self, source_word: SourceWord, start: StartContext | None) -> _CopiedCase:
        word = source_word.text
        if source_word.is_kept or any(map(str.isdigit, word)) or is_mixed(word):
            return _CopiedCase.NONE
        if is_lower(word):
            return _CopiedCase.LOWER
        forms = self.source.forms.get(self.source.lower(word))
        is_unusual = word not in forms if forms else source_word.grammar_form != word
        if sum(map(str.isalpha, word)) > 1 and is_upper(word):
            return _CopiedCase.UPPER if is_unusual else _CopiedCase.NONE
        if not is_capital(word):
            return _CopiedCase.NONE
        if start is not None:
            is_copied = forms[0] != word if forms else not self.source.nouns or is_unusual
        else:
            is_copied = not self.source.nouns and sum(map(str.isalpha, word)) > 1 and is_unusual
        return _CopiedCase.CAPITAL if is_copied else _CopiedCase.NONE

    def recased(self, j: int, word: str) -> str:
        if not any(map(str.isalpha, word)):
            return word
        form = self._mid_sentence(j, word)
        copied = self._copied.get(j)
        if copied is _CopiedCase.UPPER:
            return self.target.upper(form)
        if j in self._never_capitalized:
            return form
        start = self._starts.get(j)
        if start is None and j - 1 in self._never_capitalized:
            start = self._starts.get(j - 1)
        begins = start is not None and self._begins_with_capital(j, start)
        return self.target.capitalize(form) if begins or copied is _CopiedCase.CAPITAL else form

    def _mid_sentence(self, j: int, word: str) -> str:
        """Return the form of a target word that does not depend on its position in the sentence."""
        target, sources = self.target, self._sources[j]
        if j in self.given and target.lower(word) != word:
            return word
        if is_upper(word) and any(self.source_words[i].text == word for i in sources):
            # Do not replace an acronym such as IT by a word in lowercase.
            return word
        if not target.forms or target.nouns or target.lower(word) in target.forms or not is_capital(word):
            return target.mid_sentence(word)
        # The corpus does not have this word within sentences, so the case of the source words decides.
        translated = [i for i in sources if self.source_words[i].text != word and self._cases[i] is _CopiedCase.LOWER]
        return target.lower(word) if sources and translated == sources else word

    def _begins_with_capital(self, j: int, start: StartContext) -> bool:
        if not self.target.capital_sentences:
            return False
        source_position = self._find_source_start(j, start)
        case = _CopiedCase.NONE if source_position is None else self._cases[source_position]
        if case is not _CopiedCase.NONE:
            return case is not _CopiedCase.LOWER
        if start is StartContext.SENTENCE:
            return self.target.capital_fragments or _is_end(self.words)
        if start is StartContext.QUOTE:
            return self._is_speech(j)
        if start is StartContext.BRACKET:
            inside = self._words_until(j, _CLOSING)
            return j + len(inside) < len(self.words) and _is_end(inside)
        return start not in (StartContext.SIGN, StartContext.NUMBER)

    def _find_source_start(self, j: int, start: StartContext) -> int | None:
        source_starts = self._source_starts
        if start is StartContext.SENTENCE:
            return next(iter(source_starts), None)
        source_starts = {i: context for i, context in source_starts.items() if context is not StartContext.SENTENCE}
        before = j - 1
        while before >= 0 and not is_word(self.words[before]):
            for i in self._sources[before]:
                later = range(i + 1, len(self.source_words))
                after = next((k for k in later if is_word(self.source_words[k].text)), None)
                if not is_word(self.source_words[i].text) and after in source_starts:
                    return after
            before -= 1
        sources = [i for i, context in source_starts.items() if context is start]
        targets = [k for k, context in self._starts.items() if context is start]
        if len(sources) == len(targets) and j in targets:
            return sources[targets.index(j)]
        return next((i for i in self._sources[j] if i in source_starts), None)

    def _words_until(self, j: int, closing: Collection[str]) -> Sequence[str]:
        return list(takewhile(lambda word: not _is_sign(word, closing), self.words[j:]))

    def _is_speech(self, j: int) -> bool:
        """Check if the quotation from the target word `j` is direct speech, which begins with a capital."""
        quoted = self._words_until(j, _QUOTES)
        after = self.words[j + len(quoted) :]
        several = sum(map(is_word, quoted)) > 1
        before = next((word for word in reversed(self.words[:j]) if not _is_sign(word, _QUOTES)), "")
        if _is_end(quoted):
            return bool(several and after) or _is_sign(before, _COLONS | _COMMAS)
        return several and _is_sign(before, _COLONS) and not any(map(is_word, after))


def is_word(token: str) -> bool:
    """Check if a token has a letter or a digit."""
    return any(map(str.isalnum, token))


def _is_sign(token: str, signs: Collection[str]) -> bool:
    return bool(token) and all(letter in signs for letter in token)


def _is_end(tokens: Sequence[str]) -> bool:
    """Check if tokens end in a sentence-final mark, ignoring quotation marks and brackets after it."""
    return "".join(tokens).rstrip("".join(_QUOTES | _CLOSING))[-1:] in tuple(_ENDS)


def _start_contexts(
    tokens: Sequence[str], protected: Collection[int], tags: Collection[int]
) -> Iterator[tuple[int, StartContext]]:
    """Yield the positions and contexts of words with a start context. Protected tokens count as words."""
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
            state = _context_after_quote(token, tokens[k + 1 :], tokens[k - 1] if k else "", state, open_quotes)
        else:
            state = _context_after_mark(token, state)


def _context_after_quote(
    token: str, after: Sequence[str], before: str, state: StartContext | None, open_quotes: set[frozenset[str]]
) -> StartContext | None:
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


def _context_after_mark(token: str, state: StartContext | None) -> StartContext | None:
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
