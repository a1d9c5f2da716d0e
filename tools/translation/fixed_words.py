"""Given translations of parts of a sentence, from markup in the text or from a glossary."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from html import unescape
from itertools import accumulate, groupby, pairwise

import regex

from hierogram.daemon.exceptions import InputError
from hierogram.daemon.text.lines import numbered_lines
from hierogram.daemon.text.pipeline import UNCHANGED_TEXT, TextPipeline, TextWord
from hierogram.daemon.text.tokenizer import SYLLABLE_ENDS, is_unspaced
from hierogram.daemon.text.validation import split_tokens
from hierogram.tools.translation.casing import NO_CASING, Casing, all_capital, default_casing

MARKED = re.compile(
    r"<(?P<tag>[A-Za-z][\w-]*)\s+translation=(?P<quote>[\"'])(?P<given>.*?)(?P=quote)\s*>(?P<inside>.*?)</(?P=tag)\s*>"
)
"""Markup such as `<np translation="the house">la maison</np>`, see `marked_choices`."""
_CLUSTER = regex.compile(r"\X")
TOKENS_LINE = "# tokens"
"""First line of a glossary whose entries are tokens."""

Words = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class InputPhrase:
    """Input words, alternative given translations, and their spelling in the text if it differs."""

    words: Words
    given: tuple[Words, ...] = ()
    spelling: Words = ()


def split_words(text: str) -> Words:
    """Split tokenized text at spaces and tabs."""
    return tuple(split_tokens(text))


def marked_choices(match: re.Match[str]) -> list[str]:
    """Return the alternative translations in a match of `MARKED`, which are separated by `||`."""
    return [unescape(choice) for choice in match["given"].split("||")]


def input_phrases(line: str, pipeline: TextPipeline = UNCHANGED_TEXT, *, markup: bool) -> list[InputPhrase]:
    """Tokenize a line. With `markup`, spans that match `MARKED` have given translations."""
    phrases: list[InputPhrase] = []

    def add(text: str, choices: Sequence[str] = ()) -> None:
        if words := split_words(pipeline.source.tokens(text)):
            given = tuple(split_words(pipeline.target.tokens(choice)) for choice in choices)
            phrases.append(InputPhrase(words, given))

    position = 0
    for match in MARKED.finditer(line) if markup else ():
        add(line[position : match.start()])
        add(match["inside"], marked_choices(match))
        position = match.end()
    add(line[position:])
    return phrases


@dataclass(eq=False)
class Glossary:
    """Given translations of words and phrases. Matching is greedy from left to right, longest entry first.

    An entry also matches text in which its first word or all its words are capitalized. Case is ignored in sentences in
    capitals. In scripts without spaces, entries are also found inside the text between two spaces, see `divide`.
    `is_tokenized` is True if the entries are tokens, `segmented` if a package segments unspaced text into words.
    """

    entries: Mapping[Words, tuple[Words, ...]] = field(default_factory=dict)
    is_tokenized: bool = False
    casing: Casing = NO_CASING
    segmented: bool = False

    def __post_init__(self) -> None:
        unspaced = [words for words in self.entries if not self.is_tokenized and all(map(is_unspaced, words))]
        self._unspaced = {"".join(words).rstrip(SYLLABLE_ENDS): words for words in unspaced}
        self._max_letters = max(map(len, self._unspaced), default=0)
        self._max_words = max(map(len, self.entries), default=0)
        self._lowercase_entries: dict[Words, tuple[Words, ...]] = {}
        for words, choices in self.entries.items():
            self._lowercase_entries.setdefault(tuple(map(self.casing.lower, words)), choices)

    def tokenized_by(self, pipeline: TextPipeline) -> "Glossary":
        """Return this glossary with its entries tokenized by a text pipeline, unless they are already tokens."""
        if self.is_tokenized or not pipeline.source.changes:
            return self
        entries: dict[Words, tuple[Words, ...]] = {}
        for words, choices in self.entries.items():
            source_words = split_words(pipeline.source.tokens(" ".join(words)))
            prepared = (split_words(pipeline.target.tokens(" ".join(choice))) for choice in choices)
            entries[source_words] = tuple(dict.fromkeys((*entries.get(source_words, ()), *prepared)))
        return Glossary(
            entries, casing=default_casing(pipeline.source.language), segmented=pipeline.source.rules.has_segmenter
        )

    def divide(self, words: Sequence[TextWord]) -> list[TextWord]:
        """Split and join words of scripts without spaces so that glossary entries in their text match."""
        if not self._unspaced:
            return list(words)
        divided_words: list[TextWord] = []
        for unspaced, run in groupby(words, lambda word: not word.is_protected and is_unspaced(word.token)):
            run_words = list(run)
            divided_words += self._divided_run(run_words) if unspaced else run_words
        return divided_words

    def divide_words(self, words: Words) -> Words:
        """Divide words without positions, as in `divide`."""
        return tuple(word.token for word in self.divide([TextWord(word, 0, 0, False) for word in words]))

    def _divided_run(self, run: Sequence[TextWord]) -> Iterator[TextWord]:
        """Yield the words of adjacent unspaced words, divided at entries. Each entry yields its own words."""
        text = "".join(word.token for word in run)
        starts = [word.start + k for word in run for k in range(len(word.token))]
        ends = [end for word in run for end in (*range(word.start + 1, word.start + len(word.token)), word.end)]
        begins = list(accumulate((len(word.token) for word in run), initial=0))

        def cut(first: int, last: int) -> TextWord:
            return TextWord(text[first:last], starts[first], ends[last - 1], False)

        position = 0
        for first, last, entry in [*self._find_unspaced(text, self._boundaries(run)), (len(text), len(text), ())]:
            edges = [position, *(begin for begin in begins if position < begin < first), first]
            yield from (cut(*edge) for edge in pairwise(edges) if edge[0] < edge[1])
            for number, word in enumerate(entry, 1):
                following = first + len(word)
                yield cut(first, last if number == len(entry) else following)._replace(token=word)
                first = following
            position = last

    def _find_unspaced(self, text: str, boundaries: Sequence[int]) -> Iterator[tuple[int, int, Words]]:
        """Yield the start, end and words of entries between `boundaries`, from left to right, longest first."""
        position = 0
        for first in boundaries:
            for last in reversed(boundaries):
                if position <= first < last <= first + self._max_letters + 1 and (
                    entry := self._unspaced.get(text[first:last].rstrip(SYLLABLE_ENDS))
                ):
                    yield first, last, entry
                    position = last
                    break

    def _boundaries(self, run: Sequence[TextWord]) -> list[int]:
        boundaries, position = [], 0
        for word in run:
            at_words_only = self.segmented or word.token[-1] in SYLLABLE_ENDS
            starts = [0] if at_words_only else [cluster.start() for cluster in _CLUSTER.finditer(word.token)]
            boundaries += [position + start for start in starts]
            position += len(word.token)
        return [*boundaries, position]

    def apply(self, phrases: Sequence[InputPhrase]) -> Iterator[InputPhrase]:
        """Yield the phrases. Phrases without a given translation are split at glossary matches."""
        if not self._max_words:
            yield from phrases
            return
        plain_phrases = (phrase for phrase in phrases if not phrase.given)
        in_capitals = all_capital([word for phrase in plain_phrases for word in phrase.spelling or phrase.words])
        for phrase in phrases:
            if phrase.given:
                yield phrase
                continue
            words, unmatched, start = phrase.words, 0, 0
            spelling = phrase.spelling or words
            while start < len(words):
                for size in range(min(self._max_words, len(words) - start), 0, -1):
                    if choices := self._look_up(spelling[start : start + size], in_capitals):
                        if unmatched < start:
                            yield InputPhrase(words[unmatched:start])
                        yield InputPhrase(words[start : start + size], choices)
                        start = unmatched = start + size
                        break
                else:
                    start += 1
            if unmatched < len(words):
                yield InputPhrase(words[unmatched:])

    def _look_up(self, words: Words, in_capitals: bool) -> tuple[Words, ...]:
        """Return the translations of words, or () if no entry matches. If `in_capitals`, case is ignored."""
        lowercased = tuple(map(self.casing.uncapitalize, words))
        for form in (words, (lowercased[0], *words[1:]), lowercased):
            if choices := self.entries.get(form):
                return choices
        return self._lowercase_entries.get(tuple(map(self.casing.lower, words)), ()) if in_capitals else ()


def read_glossary(path: str) -> Glossary:
    """Read a glossary with one entry per line: words, a tab, and their translation.

    Repeated words add alternatives. Empty lines, comments (# before a space, or # on a line without a tab), and a
    header `source`, tab, `target` are skipped. If the first line is `# tokens`, words are tokens, as in the output of
    `hierogram terms`. Raises `InputError` with the line number if a line is invalid.
    """
    is_tokenized = False
    entries: dict[Words, list[Words]] = {}
    for name, number, line in numbered_lines(path):
        try:
            text = line.decode()
        except UnicodeDecodeError as error:
            raise InputError(f"{name}, line {number}: not UTF-8: convert the file first") from error
        is_tokenized |= number == 1 and text.strip() == TOKENS_LINE
        fields = text.split("\t")
        is_comment = text.startswith("# ") or (text.startswith("#") and len(fields) == 1)
        if not text.strip() or is_comment or (number == 1 and text.lower().split() == ["source", "target"]):
            continue
        if len(fields) != 2 or not split_words(fields[0]):
            raise InputError(f"{name}, line {number}: expected words, a tab, and their translation")
        entries.setdefault(split_words(fields[0]), []).append(split_words(fields[1]))
    return Glossary({words: tuple(choices) for words, choices in entries.items()}, is_tokenized)
