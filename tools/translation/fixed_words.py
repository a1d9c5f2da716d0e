"""Parts of a sentence whose translation is given: by markup in the text, or by a glossary."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import unescape

from hierogram.daemon.exceptions import InputError
from hierogram.daemon.text.lines import numbered_lines
from hierogram.daemon.text.texts import AS_IT_IS, TextPipeline
from hierogram.tools.translation.casing import NO_CASING, Casing, all_capital, casing_of

MARKED = re.compile(
    r"<(?P<tag>[A-Za-z][\w-]*)\s+translation=(?P<quote>[\"'])(?P<given>.*?)(?P=quote)\s*>(?P<inside>.*?)</(?P=tag)\s*>"
)
_ALTERNATIVES = "||"
TOKENS_LINE = "# tokens"
"""The first line of a glossary whose words are tokens."""

Words = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class SentencePart:
    """Words one after the other; with `given`, their possible translations.

    `written` are the same words in the letters of the text, where the grammar may know them in others.
    """

    words: Words
    given: tuple[Words, ...] = ()
    written: Words = ()


def split_words(text: str) -> Words:
    """Return the tokens of a text, which are separated by spaces or tabs."""
    return tuple(word for word in text.replace("\t", " ").split(" ") if word)


def marked_parts(line: str, texts: TextPipeline = AS_IT_IS) -> list[SentencePart]:
    """Return the parts of a line with markup, `<np translation="the house">la maison</np>`, as `texts` makes them.

    Several translations are separated by two bars; an empty one drops the words.
    """
    parts: list[SentencePart] = []
    at = 0
    for match in MARKED.finditer(line):
        parts.append(SentencePart(split_words(texts.source.tokens(line[at : match.start()]))))
        choices = map(unescape, match["given"].split(_ALTERNATIVES))
        given = tuple(split_words(texts.target.tokens(choice)) for choice in choices)
        parts.append(SentencePart(split_words(texts.source.tokens(match["inside"])), given))
        at = match.end()
    parts.append(SentencePart(split_words(texts.source.tokens(line[at:]))))
    return [part for part in parts if part.words]


class Glossary:
    """Given translations of words and phrases; the longest that matches is taken, from left to right.

    An entry matches words as they are written. Where it has small letters, the words, or the first one, may begin with
    capital ones; in a sentence of capital letters alone any entry matches.
    """

    def __init__(
        self,
        entries: Mapping[Words, tuple[Words, ...]] | None = None,
        *,
        tokens: bool = False,
        casing: Casing = NO_CASING,
    ) -> None:
        """`casing` is that of the source language. With `tokens` the entries are tokens, whatever sentences are."""
        self._entries = dict(entries or {})
        self._tokens = tokens
        self._casing = casing
        self._longest = max(map(len, self._entries), default=0)
        self._small: dict[Words, tuple[Words, ...]] = {}
        for words, given in self._entries.items():
            self._small.setdefault(self._lower(words), given)

    def through(self, texts: TextPipeline) -> "Glossary":
        """Return the same glossary, its words as text of sentences becomes."""
        if self._tokens or not texts.source.changes:
            return self
        entries: dict[Words, tuple[Words, ...]] = {}
        for words, given in self._entries.items():
            own = split_words(texts.source.tokens(" ".join(words)))
            found = (split_words(texts.target.tokens(" ".join(choice))) for choice in given)
            entries[own] = tuple(dict.fromkeys((*entries.get(own, ()), *found)))
        return Glossary(entries, casing=casing_of(texts.source.language))

    def divided(self, parts: Sequence[SentencePart]) -> Iterator[SentencePart]:
        """Yield the parts, those without a given translation divided where the glossary has one."""
        if not self._longest:
            yield from parts
            return
        shouted = all_capital([word for part in parts if not part.given for word in part.written or part.words])
        for part in parts:
            if part.given:
                yield part
                continue
            words, plain, start = part.words, 0, 0
            written = part.written or words
            while start < len(words):
                for size in range(min(self._longest, len(words) - start), 0, -1):
                    if given := self._given(written[start : start + size], shouted):
                        if plain < start:
                            yield SentencePart(words[plain:start])
                        yield SentencePart(words[start : start + size], given)
                        start = plain = start + size
                        break
                else:
                    start += 1
            if plain < len(words):
                yield SentencePart(words[plain:])

    def _given(self, words: Words, shouted: bool) -> tuple[Words, ...]:
        """Return the translations of words as they are written, of a sentence that may be `shouted`; none: no entry."""
        begun = tuple(map(self._casing.uncapitalize, words))
        for form in (words, (begun[0], *words[1:]), begun):
            if given := self._entries.get(form):
                return given
        return self._small.get(self._lower(words), ()) if shouted else ()

    def _lower(self, words: Words) -> Words:
        return tuple(map(self._casing.lower, words))


def read_glossary(path: str) -> Glossary:
    """Read a glossary: a line is words, a tab and their translation; a second line of the same words is another choice.

    Passed over are empty lines, notes (# and a space, or # and no tab), and a header `source`, tab, `target`. Where the
    first line is `# tokens`, words are tokens, as `hierogram terms` writes them. Raises `InputError`, which names the
    line.
    """
    tokens = False
    entries: dict[Words, list[Words]] = {}
    for name, number, line in numbered_lines(path):
        try:
            text = line.decode()
        except UnicodeDecodeError as error:
            raise InputError(f"{name}: line {number}: is not UTF-8: convert the file first") from error
        tokens |= number == 1 and text.strip() == TOKENS_LINE
        fields = text.split("\t")
        is_note = text.startswith("# ") or (text.startswith("#") and len(fields) == 1)
        if not text.strip() or is_note or (number == 1 and text.lower().split() == ["source", "target"]):
            continue
        if len(fields) != 2 or not split_words(fields[0]):
            raise InputError(f"{name}: line {number}: an entry is words, one tab, and their translation")
        entries.setdefault(split_words(fields[0]), []).append(split_words(fields[1]))
    return Glossary({words: tuple(given) for words, given in entries.items()}, tokens=tokens)
