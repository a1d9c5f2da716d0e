"""Language rules: sentence boundaries, tokenizer, detokenizer.

All languages share a tokenizer and a detokenizer, which use Unicode properties. A language adds exceptions:
abbreviations (from sacremoses), the function of the apostrophe, spaces beside punctuation marks, and the package that
finds words in a script written without spaces.
"""

import json
import logging
import re
import threading
import unicodedata
from collections.abc import Callable, Iterable, Sequence
from functools import cache, partial
from importlib import import_module
from typing import Any, NamedTuple

import regex

from hierogram.daemon.exceptions import UsageError
from hierogram.daemon.text.detokenizer import NO_BREAK, Detokenizer
from hierogram.daemon.text.orthography import (
    MAX_LINES,
    SOFT_HYPHEN,
    Boundary,
    Orthography,
    learn_joins,
    learn_letters,
    learn_spaces,
    learn_spellings,
)
from hierogram.daemon.text.tokenizer import CLOSERS, SPACE, Apostrophe, Tokenizer, WordFinder
from hierogram.storage.exceptions import install_extra

GENERAL = "und"
"""Code of an unknown language."""

TextSpan = tuple[int, int]
"""Half-open span of characters."""

_OPENERS = "\"'«“„‘‹¿¡([{<%-–—"
_SENTENCE_END = regex.compile(
    rf"(?P<end>(?:[[\p{{STerm}}…]--[。！？｡]]|፡፡)+)(?:[{re.escape(CLOSERS)}]|[ \u00a0\u202f]»)*(?=\s)"
    rf"|[。！？｡]+[{re.escape(CLOSERS)}]*",
    regex.V1,
)
_INITIAL = re.compile(r"(?:^|[\s.(\"'«“])([^\W\d_])$")
_LAST_WORD = re.compile(r"[^\s(\"'«“]+$")


class Language:
    """Rules of a language. A full stop after one of its `abbreviations` does not end a sentence."""

    def __init__(
        self,
        code: str,
        abbreviations: Sequence[str] = (),
        before_numbers: Sequence[str] = (),
        segmenter: WordFinder | None = None,
        script: str = r"\p{Any}",
        orthography: Orthography | None = None,
    ) -> None:
        """Create a language. `code` is a base language. For the other arguments, see `Tokenizer`."""
        self.spaced = code not in _WITHOUT_ANY_SPACES
        """False if the language is written without any spaces, like Chinese."""
        self.has_segmenter = segmenter is not None
        self._abbreviations = frozenset(abbreviations)
        self.apostrophe = _APOSTROPHES.get(code, Apostrophe.LETTER)
        self.orthography = orthography or Orthography(joins=_JOINS.get(code, {}))
        letters = self.orthography.letters
        self._tokenizer = Tokenizer(self.apostrophe, abbreviations, before_numbers, segmenter, script, letters)
        # Zero-width spaces are not needed if a package can segment the text again.
        self._detokenizer = Detokenizer(self.apostrophe, segmenter is None, self.orthography)
        self.separators = self._detokenizer.separators
        self.join = self._detokenizer.join

    def tokens(self, text: str) -> list[str]:
        """Tokenize a sentence in NFC. Spaces at the contexts in `Orthography.spaces` become `SPACE` tokens."""
        tokens = self._tokenizer.tokens(text)
        if self.orthography.spaces:
            for k, boundary, gap in reversed(self._detokenizer.observe(text, tokens)):
                if gap.isspace() and not boundary.sides.isdisjoint(self.orthography.spaces):
                    tokens.insert(k, SPACE)
        return tokens

    def observe(self, text: str) -> list[tuple[Boundary, str]]:
        """Return the boundaries between the tokens of a sentence, each with the spaces there, or ""."""
        boundaries = self._detokenizer.observe(text, self._tokenizer.tokens(text))
        return [(boundary, gap) for _, boundary, gap in boundaries]

    def sentences(self, text: str) -> list[TextSpan]:
        """Return the spans of the sentences of a line, without surrounding spaces."""
        spans, start = [], 0
        for match in _SENTENCE_END.finditer(text):
            if match["end"] is None or self._ends(text, start, match):
                spans.append((start, match.end()))
                start = match.end()
        spans.append((start, len(text)))
        sentences = ((text[start:end].strip(), start) for start, end in spans)
        return [(first := text.index(words, start), first + len(words)) for words, start in sentences if words]

    def _ends(self, text: str, start: int, match: "regex.Match[str]") -> bool:
        following = text[match.end() :].lstrip().lstrip(_OPENERS + " \u00a0\u202f")[:1]
        # Georgian letters are lowercase in Unicode and may begin a sentence.
        if following.islower() and following != following.title():
            return False
        if match["end"] != ".":
            return True
        before = text[start : match.start()]
        if (initial := _INITIAL.search(before)) and initial.group(1).isupper():
            return False
        last = _LAST_WORD.search(before)
        return last is None or last.group() not in self._abbreviations


_APOSTROPHES = {"en": Apostrophe.BEGINS_WORD, **dict.fromkeys(("ca", "fr", "ga", "it"), Apostrophe.ENDS_WORD)}
_DASHES = {" —<>": " ", "—<> ": " "}
"""Spaces around a dash that would attach to both neighbors, by context of one sign (see `Boundary`)."""
_JOINS = {
    "es": _DASHES,
    "fr": _DASHES | {f" {sign}<": NO_BREAK for sign in ";:!?%»"} | {"«> ": NO_BREAK},
}
"""Joins by language, as in `Orthography.joins`, before an orthography is learned."""
_WITHOUT_ANY_SPACES = {"zh", "yue", "wuu", "gan", "hak", "hsn", "nan", "cdo", "cjy", "mnp", "lzh", "ja", "ii"}
_SYLLABLE_LANGUAGES = {"bo", "dz"}
_PHRASE_LANGUAGES = re.compile(
    r"(my|km|lo|shn|mnw|ksw|blk|kht|khb|tdd|nod)([-_]|$)|.*[-_](mymr|khmr|laoo|java|bali|lana|tale|talu)"
)


def _jieba() -> WordFinder:
    import jieba

    jieba.setLogLevel(logging.WARNING)
    return partial(jieba.lcut)


def _fugashi() -> WordFinder:
    import fugashi

    tagger, lock = fugashi.Tagger(), threading.Lock()

    def divide(text: str) -> Sequence[str]:
        with lock:
            return [str(word) for word in tagger(text)]

    return divide


def _load(module: str, function: str, **arguments: Any) -> Callable[[], WordFinder]:
    return lambda: partial(getattr(import_module(module), function), **arguments)


_pythainlp = _load("pythainlp.tokenize", "word_tokenize", engine="newmm", keep_whitespace=False)


def _burmesenlp() -> WordFinder:
    from burmesenlp import word_tokenize
    from burmesenlp.lexicon import Lexicon

    # Load the lexicon once. Otherwise, it is read for each text.
    return partial(word_tokenize, lexicon=Lexicon.default())


class _Package(NamedTuple):
    """Package that finds words in a script (a pattern), and its extra. If `optional`, it may be missing."""

    name: str
    extra: str
    script: str
    load: Callable[[], WordFinder]
    optional: bool = False


_PACKAGES = {
    "zh": _Package("jieba", "chinese", r"\p{Han}", _jieba),
    "yue": _Package("jieba", "chinese", r"\p{Han}", _jieba),
    "ja": _Package("fugashi", "japanese", r"[\p{Han}\p{Hiragana}\p{Katakana}ー]", _fugashi),
    "th": _Package("pythainlp", "thai", r"\p{Thai}", _pythainlp),
    "km": _Package("khmercut", "khmer", r"\p{Khmer}", _load("khmercut", "tokenize"), optional=True),
    "lo": _Package("laonlp", "lao", r"\p{Lao}", _load("laonlp.tokenize", "word_tokenize"), optional=True),
    "my": _Package("burmesenlp", "burmese", r"\p{Myanmar}", _burmesenlp, optional=True),
}


_MIN_LINES, _MIN_CHARACTERS = 25, 1_000
"""Minimum length of a text, in lines and in characters, from which an orthography is learned."""


def base_language(code: str) -> str:
    """Return a language code in lowercase, without script and region: `zh` for `zh-Hant-TW`."""
    return re.split("[-_]", code.lower())[0]


@cache
def find_language(code: str, orthography_json: str = "") -> Language:
    """Load a language with its learned orthography. Raises `UsageError` if a required package is missing."""
    base = base_language(code)
    orthography = Orthography(**json.loads(orthography_json)) if orthography_json else None
    if base in _PACKAGES:
        package = _PACKAGES[base]
        try:
            return Language(base, segmenter=package.load(), script=package.script, orthography=orthography)
        except (ImportError, RuntimeError) as error:
            # fugashi raises RuntimeError if its dictionary is missing.
            if not package.optional:
                problem = f"tokenizing {code} requires {package.name}: {install_extra(package.extra)}"
                raise UsageError(problem) from error
    # Import here because sacremoses loads slowly.
    from sacremoses.corpus import NonbreakingPrefixes

    prefixes = NonbreakingPrefixes()
    listed = prefixes.words(base) if base in prefixes.available_langs.values() else ()
    entries = [(word, "#NUMERIC_ONLY#" in note) for word, _, note in (line.partition(" ") for line in listed)]
    before_numbers = [word for word, is_numeric in entries if is_numeric]
    abbreviations = [word for word, is_numeric in entries if not is_numeric]
    return Language(base, abbreviations, before_numbers, orthography=orthography)


def learn_orthography(code: str, lines: Sequence[str]) -> str:
    """Learn an orthography from the first raw lines of a corpus. Returns JSON, or "" for a short text."""
    lines = [line.replace(SOFT_HYPHEN, "").strip() for line in lines[:MAX_LINES]]
    if len(lines) < _MIN_LINES or sum(map(len, lines)) < _MIN_CHARACTERS:
        return ""
    decomposed, spellings = learn_spellings(lines)
    texts = [unicodedata.normalize("NFC", line) for line in lines]
    rules = find_language(code)
    prior = rules.orthography.joins
    letters = learn_letters(texts, "" if rules.apostrophe is Apostrophe.LETTER else "'’")
    rules = find_language(code, Orthography(letters, prior).to_json())
    observed = [rules.observe(text) for text in texts]
    joins = learn_joins([boundary for line in observed for boundary in line], prior)
    return Orthography(letters, joins, learn_spaces(observed, joins), decomposed, spellings).to_json()


def segmenter_advice(codes: Iterable[str]) -> str | None:
    """Return a note on the languages without spaces whose words no installed package finds, or None."""
    notes = []
    for code in dict.fromkeys(codes):
        base = base_language(code)
        if find_language(code).has_segmenter:
            continue
        if base in _SYLLABLE_LANGUAGES:
            tokens = "each syllable is a token"
        elif base in _WITHOUT_ANY_SPACES:
            tokens = "each character is a token"
        elif _PHRASE_LANGUAGES.match(code.lower()):
            tokens = "text between spaces, zero-width spaces and punctuation is a token"
        else:
            continue
        package = _PACKAGES.get(base)
        finds = f"; to find words, {install_extra(package.extra)} before you create the store" if package else ""
        notes.append(f"{code} is written without spaces between words: {tokens}{finds}")
    return "; ".join(notes) or None
