"""Prepare text at every door: which languages it has, which tokens its words make, which case they keep.

A store's settings say it, the manifest of an export repeats it, and `--tokenize fr,en` says it for other grammars. All
that takes text (ingest, alignment, evidence, language models, translation, tuning) sends it through one `TextPipeline`.
"""

import os
import re
import unicodedata
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from hierogram.daemon.compressing import plain_name
from hierogram.daemon.exceptions import UsageError
from hierogram.daemon.text.kept import Kept, kept_in
from hierogram.daemon.text.languages import GENERAL, Language, Spot, language_of, note_on_words
from hierogram.daemon.text.segments import joined, segmenter_of, spread_links
from hierogram.daemon.text.tokenizer import SPACE, ZERO_WIDTH_SPACE, has_long_words
from hierogram.daemon.text.validation import LineColumns
from hierogram.samplers.grammar.kinds import PAIRS, notation_of
from hierogram.samplers.grammar.numbers import LONGEST_ITG_SIDE
from hierogram.samplers.grammar.rules import Symbol, parse_side, render_side
from hierogram.samplers.grammar.settings import ITG_ALIGNER
from hierogram.storage.records import KEPT, LOWERED, PART_MARK, Settings

Languages = tuple[str, str]
"""Source and target, as in ("fr", "en")."""

LOOKS_RUNNING = "most sentences end in a word with its full stop, which makes another word of it"
"""What is said of text that looks as if it were not divided into tokens."""

LOOKS_DIVIDED = "most sentences have spaces before full stops and commas, so they are tokens already"
"""What is said of text that is divided though it looks like tokens."""

LOOKS_UNSPACED = (
    "most sentences have no spaces between words: init --languages and --tokenize divide a language by its own package"
)
"""Note on text in a script without spaces that is stored as it is."""

IN_REQUESTS = ("a store made by `hierogram init --languages fr,en --tokenize`", '"tokenized": true')
"""What answers to requests say that divides text, and that leaves it as it is."""

SOFT_HYPHEN = "\u00ad"
"""Says where a word may be hyphenated. Nobody sees it, and words are the same without."""

_LANGUAGE = re.compile(r"[A-Za-z]{2,8}([-_][A-Za-z0-9]{1,8})*")
_ATTACHED = re.compile(r"""\w[.!?…。！？]+["'»”’)\]]*\s*$""")
"""A line's end where the last word has a full stop, an exclamation or a question mark attached."""
_NO_TEXT = re.compile(rb"[\0\r\n]")
"""What no line of text holds; validation says so."""
_DETACHED = re.compile(r"\w\s+[.,](\s|$)")
_LOOKED_AT = 1_000


class TextWord(NamedTuple):
    """A token of a text, where it stands, and whether it stays as it is."""

    token: str
    start: int
    end: int
    stays: bool


@dataclass(frozen=True, slots=True)
class TextSide:
    """Text of one side: divided by the rules of `language` (None: it is tokens already), with `lower` in small letters.

    `words` and `tokens` are the way in, `separators` and `joined` the way out. With `joins` the tokens are parts of
    words, see `segments`; where it is empty, words are whole in a store that has parts on its other side.
    """

    language: str | None = None
    lower: bool = False
    joins: str | None = None

    @property
    def rules(self) -> Language:
        """The rules of the language, or general ones."""
        return language_of(self.language or GENERAL)

    @property
    def changes(self) -> bool:
        """Return whether text may be changed."""
        return self.language is not None or self.lower or self.joins is not None

    def tokens(self, text: str) -> str:
        """Return a line of text as a store holds it: tokens with spaces between them."""
        if self.language is None:
            line = text.lower() if self.lower else text
        elif kept := kept_in(text := unicodedata.normalize("NFC", text)):
            line = " ".join(word.token for word in self.words(text, kept))
        else:
            line = " ".join(self.rules.tokens(text.replace(SOFT_HYPHEN, "")))
            line = line.lower() if self.lower else line
        return segmenter_of(self.joins).tokens(line) if self.joins is not None else line

    def words(self, text: str, kept: Sequence[Kept]) -> list[TextWord]:
        """Return the tokens of a text in NFC, with what is to be kept in it, each with its place."""
        # What is kept stands in for a word meanwhile.
        mark = "Qk"
        while mark in text.replace(SOFT_HYPHEN, ""):
            mark += "k"
        pieces, at = [], 0
        for number, one in enumerate(kept):
            pieces += [text[at : one.start], mark, _letters(number), "Zz"]
            at = one.end
        found: list[TextWord] = []
        tokens = self.rules.tokens("".join((*pieces, text[at:])).replace(SOFT_HYPHEN, ""))
        at = 0
        for token in tokens:
            for part, stands_for in _parts(token, mark):
                if stands_for is not None:
                    one = kept[stands_for]
                    found.append(TextWord(one.token, one.start, one.end, True))
                    at = one.end
                    continue
                start, at = _spot_of(part, text, at)
                found.append(TextWord(part.lower() if self.lower else part, start, at, False))
        return found

    def typed(self, text: str) -> str:
        """Return a rule's side as a store holds it, from one with words as people type it."""
        symbols: list[Symbol] = []
        for symbol in parse_side(text):
            # What begins with a mark is a part already.
            divided = isinstance(symbol, str) and not symbol.startswith(PART_MARK)
            symbols += self.tokens(str(symbol)).split(" ") if divided else [symbol]
        return render_side(tuple(symbols))

    def separators(self, tokens: Sequence[str]) -> list[str]:
        """Return what stands before each token in text."""
        return self.rules.separators(tokens)

    def joined(self, tokens: Sequence[str]) -> str:
        """Return the text that tokens are."""
        return self.rules.join(tokens)

    def written(self, line: str) -> str:
        """Return a line of words as people write it where this side divides text, and as it is elsewhere."""
        return line if self.language is None else self.joined(line.split(" "))

    def text_of(self, line: str) -> str:
        """Return the text that a stored line is, of words or of parts of them."""
        return self.joined(joined(line).split(" "))

    def tokens_of_bytes(self, line: bytes) -> bytes:
        """Return the tokens of a line as bytes; what is not UTF-8 stays as it is, for validation to name."""
        if not self.changes:
            return line
        try:
            return self.tokens(line.decode()).encode()
        except UnicodeDecodeError:
            return line


def _spot_of(token: str, text: str, at: int) -> Spot:
    """Return the span of a token in a text, from a position on. Characters that tokens leave out may be inside it."""
    if token == SPACE and not text.startswith(SPACE, at):
        start = at
        while at < len(text) and (text[at].isspace() or text[at] == ZERO_WIDTH_SPACE):
            at += 1
        return start, at
    if SOFT_HYPHEN in text or ZERO_WIDTH_SPACE in text:
        between = f"[{SOFT_HYPHEN}{ZERO_WIDTH_SPACE}]*"
        if (found := re.compile(between.join(map(re.escape, token)) + SOFT_HYPHEN + "*").search(text, at)) is not None:
            return found.span()
    place = text.find(token, at)
    start = place if place >= 0 else at
    return start, min(start + len(token), len(text))


def _letters(number: int) -> str:
    """Return a number in letters, which no tokenizer divides."""
    return "".join(chr(ord("a") + int(digit)) for digit in str(number))


def _parts(token: str, mark: str) -> Iterator[tuple[str, int | None]]:
    """Yield what a token is of text, and the numbers of what stands in it for something kept."""
    if mark not in token:
        yield token, None
        return
    for text, letters in re.findall(rf"(.*?)(?:{mark}([a-j]+)Zz|$)", token):
        if text:
            yield text, None
        if letters:
            yield "", int("".join(str(ord(letter) - ord("a")) for letter in letters))


TOKENS = TextSide()
"""Leaves text as it is: tokens with spaces between them."""


@dataclass(frozen=True, slots=True)
class TextPipeline:
    """Preparation of text of two sides.

    `languages` are those of source and target, None where nobody knows them. `rules` are the languages by whose rules
    text is divided into tokens, None where it comes as tokens.
    """

    languages: Languages | None = None
    rules: Languages | None = None
    lower: bool = False
    joins: tuple[str, ...] = ()

    @property
    def source(self) -> TextSide:
        """The preparation of source sentences."""
        return TextSide(self.rules[0] if self.rules else None, self.lower, self.joins[0] if self.joins else None)

    @property
    def target(self) -> TextSide:
        """The preparation of target sentences."""
        return TextSide(self.rules[1] if self.rules else None, self.lower, self.joins[1] if self.joins else None)

    def of_words(self) -> "TextPipeline":
        """Return the pipeline of text that is words already, with spaces between them: it divides them into parts."""
        return TextPipeline(joins=self.joins)

    def to_words(self) -> "TextPipeline":
        """Return the pipeline whose tokens are words, even where the store holds parts of them."""
        return replace(self, joins=())

    def pair(self, source: str, target: str) -> tuple[str, str]:
        """Return a sentence and its translation as a store holds them."""
        return self.source.tokens(source), self.target.tokens(target)

    def prepared(self, fields: LineColumns) -> LineColumns:
        """Return the same lines; those whose links count tokens keep these, and change their case alone."""
        source, target = self.source, self.target
        if not source.changes:
            return fields
        # Links count words.
        words = TextSide(None, self.lower)
        bare = [alignment is None and k not in fields.known for k, alignment in enumerate(fields.alignments)]
        sources, targets = (
            [
                # Tokenizers would make spaces of these, or leave them out.
                line if _NO_TEXT.search(line) else (side if own else words).tokens_of_bytes(line)
                for line, own in zip(lines, bare, strict=True)
            ]
            for side, lines in ((source, fields.sources), (target, fields.targets))
        )
        prepared = replace(fields, sources=sources, targets=targets)
        if not self.joins or all(bare):
            return prepared
        linked = [k for k, own in enumerate(bare) if not own]
        return spread_links(prepared, linked, segmenter_of(self.joins[0]), segmenter_of(self.joins[1]))

    def as_plain(self) -> dict[str, object]:
        """Return the settings of a store that make this pipeline, as JSON has them."""
        languages = self.rules or self.languages or ()
        return {
            "languages": list(languages),
            "tokenize": self.rules is not None,
            "case": LOWERED if self.lower else KEPT,
            "bpe_merges": list(self.joins),
        }

    def running(self) -> "TextPipeline":
        """Return the pipeline of running text, which divides it even where the store's pairs come as tokens."""
        return replace(self, rules=self.rules or self.languages or (GENERAL, GENERAL))


AS_IT_IS = TextPipeline()
"""Leaves text as it is: tokens with spaces between them."""


def pipeline_of(
    settings: Settings | Mapping[str, Any], languages: Languages | None = None, tokenize: Languages | None = None
) -> TextPipeline:
    """Return how a store with these settings prepares text of `languages`, to be divided by rules of `tokenize`.

    `settings` may be those of a manifest. Raises `UsageError` where the languages are not the store's, or what divides
    one of them is missing.
    """
    if isinstance(settings, Settings):
        settings = {name: getattr(settings, name) for name in ("languages", "tokenize", "case", "bpe_merges")}
    known: Sequence[str] = settings.get("languages") or []
    own = (str(known[0]), str(known[1])) if len(known) == 2 else None
    for given, named in ((languages, "languages"), (tokenize, "tokenize")):
        if given and own and given != own:
            raise UsageError(
                f"{named} {','.join(given)}: the store is of {','.join(own)} (source, target): "
                "give the input the other way about, or take another store"
            )
    rules = tokenize or (own if settings.get("tokenize") else None)
    for language in rules or ():
        language_of(language)
    joins = tuple(map(str, settings.get("bpe_merges") or ()))
    return TextPipeline(languages or own or tokenize, rules, settings.get("case") == LOWERED, joins)


def side_of(language: str) -> TextSide:
    """Return what divides text of a language into tokens; raises `UsageError` where what divides it is missing."""
    language_of(language)
    return TextSide(language)


def looks(divided: bool, lines: Iterable[str | bytes]) -> bool:
    """Return whether most lines look `divided`, with spaces before a full stop or a comma, as no raw text has.

    Or else, whether they look like text that is not: lines end in a word with its punctuation.
    """
    pattern = _DETACHED if divided else _ATTACHED
    texts = [line.decode(errors="replace") if isinstance(line, bytes) else line for line in lines]
    return 2 * sum(pattern.search(text) is not None for text in texts) > len(texts)


def words_advice(rules: Languages | None, sides: Iterable[Sequence[str | bytes]]) -> str | None:
    """Return a note on text without spaces between words, or None.

    `rules` are the languages whose rules divide the text; without them most lines show that they are not divided.
    """
    if rules is not None:
        return "; ".join(note for code in dict.fromkeys(rules) if (note := note_on_words(code))) or None
    for side in sides:
        texts = [line.decode(errors="replace") if isinstance(line, bytes) else line for line in side]
        if 2 * sum(map(has_long_words, texts)) > len(texts):
            return LOOKS_UNSPACED
    return None


def text_advice(side: TextSide, named: str, lines: Sequence[str], divide: str, leave: str) -> str | None:
    """Return what to say of sentences that need to be divided into tokens and are not, or are and are divided again.

    None: nothing. `named` is what the text is called, `divide` what divides it, `leave` what leaves it as it is. The
    first lines are looked at, empty ones passed over. The tokenizer does not leave its own tokens alone: `l' eau` would
    become `l ' eau`.
    """
    sample = [line for line in lines[:_LOOKED_AT] if line.strip()]
    divided = side.language is not None
    if not looks(divided, sample):
        return None
    if divided:
        return f"{named}: {LOOKS_DIVIDED}: {leave} leaves it as it is"
    return f"{named}: {LOOKS_RUNNING}: {divide} divides text into tokens, {leave} says that it is tokens"


def two_languages(given: str, option: str) -> Languages:
    """Return source and target of a text as `fr,en`; raises `UsageError` where it does not name two languages."""
    languages = given.split(",")
    if len(languages) != 2 or not all(map(_LANGUAGE.fullmatch, languages)):
        raise UsageError(f"{option} {given}: name two languages, source and target: {option} fr,en")
    return languages[0], languages[1]


def check_settings(settings: Settings) -> None:
    """Raise `UsageError` where a store cannot have these settings of languages and tokens."""
    notation = notation_of(settings.grammar)
    if settings.max_tokens > notation.longest:
        raise UsageError(
            f"--max-tokens {settings.max_tokens}: a store of {notation.holds} takes sides of {notation.longest} tokens "
            "at most"
        )
    if settings.aligner == ITG_ALIGNER and settings.max_tokens > LONGEST_ITG_SIDE:
        raise UsageError(
            f"--max-tokens {settings.max_tokens}: the aligner {ITG_ALIGNER} takes sides of {LONGEST_ITG_SIDE} tokens "
            "at most"
        )
    if settings.languages:
        two_languages(",".join(settings.languages), "--languages")
        if notation.takes != PAIRS:
            raise UsageError(
                f"--languages: a store of {notation.holds} has sentences of one language, and needs none named"
            )
    if settings.tokenize and not settings.languages:
        raise UsageError("--tokenize: name the languages whose rules divide text into tokens, as in --languages fr,en")
    pipeline_of(settings)


def check_names(paths: Sequence[str], languages: Languages | None) -> None:
    """Raise `UsageError` where the names of source and target file end in the languages the other way about."""
    if languages is None or len(paths) < 2:
        return
    endings = [plain_name(os.path.basename(path)).rpartition(".")[2].lower() for path in paths[:2]]
    if endings == [languages[1], languages[0]] and languages[0] != languages[1]:
        given = " ".join((paths[1], paths[0], *paths[2:]))
        raise UsageError(
            f"{paths[0]} {paths[1]}: the store is of {','.join(languages)} (source, target): hierogram ingest {given}"
        )
