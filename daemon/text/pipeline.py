"""Text pipeline: conversion of text to the tokens of a store, and back.

The settings of a store define its pipeline: languages, tokenization, letter case and word parts. An export has the
settings in its manifest. For a grammar without a manifest, `--tokenize fr,en` selects the pipeline; without this
option, text consists of tokens. All text (ingest, alignment, evidence, language models, translation, tuning) passes
through a `TextPipeline`.
"""

import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

from hierogram.daemon.exceptions import UsageError
from hierogram.daemon.text.languages import GENERAL, Language, TextSpan, find_language
from hierogram.daemon.text.orthography import SOFT_HYPHEN
from hierogram.daemon.text.protected_spans import ProtectedSpan, find_protected
from hierogram.daemon.text.segments import make_segmenter, spread_links
from hierogram.daemon.text.tokenizer import SPACE, ZERO_WIDTH_SPACE
from hierogram.daemon.text.validation import LineColumns
from hierogram.samplers.grammar.kinds import PAIRS, find_grammar_kind
from hierogram.samplers.grammar.numbers import MAX_ITG_SIDE_LENGTH
from hierogram.samplers.grammar.rules import Symbol, parse_side, render_side
from hierogram.samplers.grammar.settings import ITG_ALIGNER
from hierogram.storage.records.parts import is_part, join_parts
from hierogram.storage.records.settings import KEPT, LOWERED, Settings

Languages = tuple[str, str]
"""Source and target language, such as ("fr", "en")."""

UNKNOWN: Languages = (GENERAL, GENERAL)
"""Languages whose rules tokenize text in unknown languages."""
_LANGUAGE = re.compile(r"[A-Za-z]{2,8}([-_][A-Za-z0-9]{1,8})*")
_NO_TEXT = re.compile(rb"[\0\r\n]")
"""Bytes that validation rejects in a line of text."""


class TextWord(NamedTuple):
    """Token of a text, with its half-open span there. Protected tokens are untranslatable."""

    token: str
    start: int
    end: int
    is_protected: bool


@dataclass(frozen=True, slots=True)
class TextSide:
    """Text pipeline of one side.

    The rules of `language` tokenize text. Without a `language`, text consists of tokens. `word_parts` are the merges or
    known words that split words, see `segments`: None in a store of whole words, empty if only the other side is split.
    `orthography` is the orthography of the store's text, as JSON.
    """

    language: str | None = None
    lower: bool = False
    word_parts: str | None = None
    orthography: str = ""

    @property
    def rules(self) -> Language:
        """Rules of `language` with the learned orthography, or general rules if it is None."""
        return find_language(self.language or GENERAL, self.orthography)

    @property
    def changes(self) -> bool:
        """True if this pipeline may change text."""
        return self.language is not None or self.lower or self.word_parts is not None

    def tokens(self, text: str) -> str:
        """Convert a line of text to stored tokens (words, or word parts), separated by spaces."""
        if self.language is None:
            line = text.lower() if self.lower else text
        elif protected := find_protected(text := unicodedata.normalize("NFC", text)):
            line = " ".join(word.token for word in self.words(text, protected))
        else:
            line = " ".join(self.rules.tokens(text.replace(SOFT_HYPHEN, "")))
            line = line.lower() if self.lower else line
        return make_segmenter(self.word_parts).split_line(line) if self.word_parts is not None else line

    def words(self, text: str, protected: Sequence[ProtectedSpan]) -> list[TextWord]:
        """Tokenize text in NFC, with positions. Each of the spans `protected` becomes one token."""
        # Replace each protected span by a placeholder word, so that the tokenizer does not split it.
        mark = "QkZz"
        while mark in text.replace(SOFT_HYPHEN, ""):
            mark = f"Qk{mark[1:]}"
        pieces, position = [], 0
        for span in protected:
            pieces += [text[position : span.start], mark]
            position = span.end
        words: list[TextWord] = []
        waiting = iter(protected)
        tokens = self.rules.tokens("".join((*pieces, text[position:])).replace(SOFT_HYPHEN, ""))
        position = 0
        for token in tokens:
            for number, part in enumerate(token.split(mark)):
                if number:
                    span = next(waiting)
                    words.append(TextWord(span.token, span.start, span.end, True))
                    position = span.end
                if part:
                    start, position = _find_span(part, text, position)
                    words.append(TextWord(part.lower() if self.lower else part, start, position, False))
        return words

    def convert_rule_side(self, text: str) -> str:
        """Convert the words of a rule's side, as typed by users, to stored tokens. Raises `ValueError`."""
        symbols: list[Symbol] = []
        for symbol in parse_side(text):
            # Do not split a symbol with a mark, because it is already a part of a word.
            divided = isinstance(symbol, str) and not is_part(symbol)
            symbols += self.tokens(str(symbol)).split(" ") if divided else [symbol]
        return render_side(tuple(symbols))

    def detokenize(self, line: str) -> str:
        """Detokenize a line of words if this pipeline tokenizes text. Otherwise, return it unchanged."""
        return line if self.language is None else self.rules.join(line.split(" "))

    def detokenize_stored(self, line: str) -> str:
        """Detokenize a stored line of words or parts, by general rules without a language."""
        return self.rules.join((line if self.word_parts is None else join_parts(line)).split(" "))

    def tokenize_bytes(self, line: bytes) -> bytes:
        """Convert a line to stored tokens. Invalid UTF-8 is unchanged, and validation rejects it."""
        if not self.changes:
            return line
        try:
            return self.tokens(line.decode()).encode()
        except UnicodeDecodeError:
            return line


def _find_span(token: str, text: str, begin: int) -> TextSpan:
    """Find the span of a token in a text from position `begin`, including characters that tokens omit."""
    if token == SPACE and not text.startswith(SPACE, begin):
        start = begin
        while begin < len(text) and (text[begin].isspace() or text[begin] == ZERO_WIDTH_SPACE):
            begin += 1
        return start, begin
    if SOFT_HYPHEN in text or ZERO_WIDTH_SPACE in text:
        between = f"[{SOFT_HYPHEN}{ZERO_WIDTH_SPACE}]*"
        pattern = re.compile(between.join(map(re.escape, token)) + SOFT_HYPHEN + "*")
        if match := pattern.search(text, begin):
            return match.span()
    position = text.find(token, begin)
    start = position if position >= 0 else begin
    return start, min(start + len(token), len(text))


TOKENS = TextSide()
"""Pipeline of one side that leaves text unchanged: tokens separated by spaces."""


@dataclass(frozen=True, slots=True)
class TextPipeline:
    """Text pipeline of two sides.

    `languages` are the source and target language, None if unknown. `rules` are the languages whose rules tokenize
    text. Without `rules`, text consists of tokens. `word_parts` and `orthographies` are settings of the store, one per
    side, or ().
    """

    languages: Languages | None = None
    rules: Languages | None = None
    lower: bool = False
    word_parts: tuple[str, ...] = ()
    orthographies: tuple[str, ...] = ()

    @property
    def source(self) -> TextSide:
        """Pipeline of source sentences."""
        return self._side(0)

    @property
    def target(self) -> TextSide:
        """Pipeline of target sentences."""
        return self._side(1)

    def _side(self, k: int) -> TextSide:
        language = self.rules[k] if self.rules else None
        word_parts = self.word_parts[k] if self.word_parts else None
        orthography = self.orthographies[k] if self.rules and self.orthographies else ""
        return TextSide(language, self.lower, word_parts, orthography)

    def for_tokenized(self) -> "TextPipeline":
        """Return the pipeline for tokenized text, which only splits words into parts, if the store does."""
        return TextPipeline(word_parts=self.word_parts)

    def with_whole_words(self) -> "TextPipeline":
        """Return the pipeline that does not split words into parts."""
        return replace(self, word_parts=())

    def pair(self, source: str, target: str) -> tuple[str, str]:
        """Convert both sides of a sentence pair to stored tokens."""
        return self.source.tokens(source), self.target.tokens(target)

    def prepare(self, columns: LineColumns) -> LineColumns:
        """Convert lines to stored tokens. Lines with links, which count their words, are not tokenized."""
        source, target = self.source, self.target
        if not source.changes:
            return columns
        words = TextSide(None, self.lower)
        linked = columns.linked()
        sources, targets = (
            [
                # Keep these bytes, so that validation rejects the line. Tokenizers would replace or remove them.
                line if _NO_TEXT.search(line) else (words if k in linked else side).tokenize_bytes(line)
                for k, line in enumerate(lines)
            ]
            for side, lines in ((source, columns.sources), (target, columns.targets))
        )
        alignments, known_links = [*columns.alignments], dict(columns.known_links)
        prepared = replace(columns, sources=sources, targets=targets, alignments=alignments, known_links=known_links)
        if self.word_parts:
            spread_links(prepared, linked, *map(make_segmenter, self.word_parts))
        return prepared

    def as_settings(self) -> dict[str, object]:
        """Return the store settings that define this pipeline, as JSON values, for `make_pipeline`."""
        return {
            "languages": list(self.languages or ()),
            "tokenize": self.rules is not None,
            "case": LOWERED if self.lower else KEPT,
            "word_parts": list(self.word_parts),
            "orthographies": list(self.orthographies),
        }

    def for_running_text(self) -> "TextPipeline":
        """Return the pipeline that tokenizes text even if the store keeps tokens, by its languages if known."""
        return replace(self, rules=self.rules or self.languages or UNKNOWN)


UNCHANGED_TEXT = TextPipeline()
"""Pipeline of two sides that leaves text unchanged: tokens separated by spaces."""


def make_pipeline(
    settings: Settings | Mapping[str, Any], languages: Languages | None = None, tokenize: Languages | None = None
) -> TextPipeline:
    """Return the text pipeline that settings define. `settings` may be the mapping in a manifest.

    `languages` are the languages of the input (default: the store's). `tokenize` are the languages whose rules tokenize
    text (default: if the setting `tokenize` is True, the store's languages, or general rules if it has none). Raises
    `UsageError` if the languages differ from the store's, or the package of a language is not installed.
    """
    if isinstance(settings, Settings):
        settings = asdict(settings)
    names = list(map(str, settings.get("languages") or ()))
    stored_pair = (names[0], names[1]) if len(names) == 2 else None
    for value, named in ((languages, "languages"), (tokenize, "tokenize")):
        if value and stored_pair and value != stored_pair:
            problem = f"the languages of the store are {','.join(stored_pair)} (source, target)"
            advice = "exchange the sides of the input, or use another store"
            raise UsageError(f"{named} {','.join(value)}: {problem}: {advice}")
    rules = tokenize or ((stored_pair or UNKNOWN) if settings.get("tokenize") else None)
    for language in rules or ():
        find_language(language)
    word_parts = tuple(map(str, settings.get("word_parts") or ()))
    orthographies = tuple(map(str, settings.get("orthographies") or ()))
    lower = settings.get("case") == LOWERED
    return TextPipeline(languages or stored_pair or tokenize, rules, lower, word_parts, orthographies)


def two_languages(text: str, option: str) -> Languages:
    """Parse source and target language, such as `fr,en`. `option` is named in the `UsageError`."""
    languages = text.split(",")
    if len(languages) != 2 or not all(map(_LANGUAGE.fullmatch, languages)):
        raise UsageError(f"{option} {text}: expected two languages, source and target, such as {option} fr,en")
    return languages[0], languages[1]


def check_settings(settings: Settings) -> None:
    """Raise `UsageError` if settings of a new store contradict each other, or a package is not installed."""
    grammar_kind = find_grammar_kind(settings.grammar)
    if settings.max_tokens > grammar_kind.max_side_words:
        limit = f"must be at most {grammar_kind.max_side_words} for a store of {grammar_kind.content}"
        raise UsageError(f"--max-tokens {settings.max_tokens}: {limit}")
    if settings.aligner == ITG_ALIGNER and settings.max_tokens > MAX_ITG_SIDE_LENGTH:
        limit = f"must be at most {MAX_ITG_SIDE_LENGTH} with --aligner {ITG_ALIGNER}"
        raise UsageError(f"--max-tokens {settings.max_tokens}: {limit}")
    if settings.languages:
        two_languages(",".join(settings.languages), "--languages")
        if grammar_kind.input_kind != PAIRS:
            problem = f"not supported for a store of {grammar_kind.content}, which is monolingual"
            raise UsageError(f"--languages is {problem}")
    make_pipeline(settings)
