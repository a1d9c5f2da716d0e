"""Translation of running text, with sentence splitting, tokenization, recasing, spacing and tags."""

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain, groupby, pairwise, takewhile
from operator import itemgetter
from typing import Any, NamedTuple

from hierogram.daemon.text.detokenizer import find_repeated, find_unpaired, token_text
from hierogram.daemon.text.languages import TextSpan
from hierogram.daemon.text.orthography import SOFT_HYPHEN
from hierogram.daemon.text.pipeline import TextPipeline, TextWord
from hierogram.daemon.text.protected_spans import TAG, ProtectedSpan
from hierogram.daemon.text.tokenizer import is_unspaced
from hierogram.samplers.grammar.rules import RuleUse, Span
from hierogram.tools.translation.casing import Links, SourceWord, all_capital, is_word, recase
from hierogram.tools.translation.documents import (
    HTML,
    TEXT,
    AttachedTag,
    Paragraph,
    Part,
    PlacedItem,
    TagPair,
    divide,
    place_tags,
)
from hierogram.tools.translation.fixed_words import InputPhrase, Words, split_words
from hierogram.tools.translation.translating import Candidate, DecodedPart, Translation, Translator, given_positions

FindCorrection = Callable[[str, bool], str | None]
"""Callback that returns a user's correction of a text, or None: `(text, is HTML)`."""
TOKENS = "tokens"
"""Format of tokenized text, whose translations are also tokenized."""
_NUMBER = re.compile(r"\d+")
_CANDIDATES_PER_TEXT = 3
"""Candidates per requested translation, because several candidates may have the same text."""


class _Unit(NamedTuple):
    """Source word: grammar form, token, span in the paragraph, output text if kept, given translations."""

    word: str
    token: str
    text_span: TextSpan
    written: str | None = None
    given: tuple[Words, ...] = ()


class _Sentence(NamedTuple):
    """Sentence or group of sentences, the text before it, and its number of decoded parts."""

    before: str
    # True after another sentence of the paragraph.
    follows: bool
    units: list[_Unit]
    part_count: int


class TextParagraph(NamedTuple):
    """Translated paragraph, with spans of its source and target words in the whole translation."""

    text: str
    sources: TextSpan
    targets: TextSpan
    text_spans: list[TextSpan]
    """Spans of the source words in `text`."""
    written: list[tuple[str, str]]
    """Target words as displayed, each with the text before it."""


@dataclass(frozen=True)
class TextTranslation:
    """Text with its translations `texts`, best first, at least one.

    `numbers` are the indices of the texts among the candidates of `translation`, empty for a source without words.
    `paragraphs` belong to the best translation, and are empty if translations are tokens. `divided` is the number of
    sentences or groups translated in parts. `corrected` is a user's correction of the source, which is not in `texts`.
    """

    source: str
    texts: list[str]
    numbers: list[int]
    translation: Translation
    paragraphs: list[TextParagraph]
    divided: int = 0
    corrected: str | None = None

    @property
    def text(self) -> str:
        """User's correction if one exists, else the best translation."""
        return self.texts[0] if self.corrected is None else self.corrected

    @property
    def candidates(self) -> list[Candidate]:
        """Tokens, score and features of each translation."""
        return [self.translation.candidates[number] for number in self.numbers]

    def alignment(self, number: int = 0) -> list[Span]:
        """Return linked word positions of source and target of a translation."""
        return self.translation.alignment(self.numbers[number]) if self.numbers else []

    def derivation(self, number: int = 0) -> list[RuleUse]:
        """Return the rules of a translation's derivation. Spans are word positions."""
        return self.translation.derivation(self.numbers[number]) if self.numbers else []


class TextTranslator:
    """Translator of running text, based on a translator of tokens. Thread-safe.

    If the translator's pipeline takes tokens, text is tokenized by the rules of its languages, or by general rules.
    Sentences are translated one by one, or in groups if the grammar's pairs have several sentences, such as verses.
    """

    def __init__(self, translator: Translator, find_correction: FindCorrection | None = None) -> None:
        self.translator = translator
        self.pipeline = translator.pipeline.for_running_text()
        self.default_format = TOKENS if translator.pipeline.rules is None else TEXT
        self._find_correction = find_correction

    def input_pipeline(self, format: str) -> TextPipeline:
        """Return the pipeline that tokenizes text of a format."""
        return self.translator.pipeline if format == TOKENS else self.pipeline

    def translate(
        self,
        text: str,
        *,
        format: str | None = None,
        best: int = 1,
        markup: bool = False,
        pipeline: TextPipeline | None = None,
    ) -> TextTranslation:
        """Translate a text of one or more paragraphs in up to `best` ways. Line breaks are kept.

        Users' corrections are used if the format is not `tokens` and `markup` is False. With the format `tokens`,
        `pipeline` replaces the translator's pipeline.
        """
        format = format or self.default_format
        if format == TOKENS:
            translation = self.translator.translate(text, best, markup=markup, pipeline=pipeline)
            texts = [candidate.text for candidate in translation.candidates]
            divided = int(len(translation.decoded_parts) > 1)
            return TextTranslation(text, texts or [""], list(range(len(texts))), translation, [], divided)
        limit = 1 if best == 1 else _CANDIDATES_PER_TEXT * best
        result = self._translate(text, format, best, markup, limit)
        # Candidates with different tokens can have the same text.
        while len(result.texts) < best and len(result.translation.candidates) == limit:
            limit *= _CANDIDATES_PER_TEXT
            result = self._translate(text, format, best, markup, limit)
        if markup or self._find_correction is None:
            return result
        return replace(result, corrected=self._find_correction(text, format == HTML))

    def _translate(self, text: str, format: str, best: int, markup: bool, limit: int) -> TextTranslation:
        parts = divide(text, format, markup)
        decoded_parts: list[DecodedPart] = []
        sentences: dict[int, list[_Sentence]] = {}
        for number, part in enumerate(parts):
            if not isinstance(part, Paragraph) or not _is_translatable(part):
                continue
            sentences_of_paragraph = sentences.setdefault(number, [])
            end = 0
            for start, stop in self._sentence_spans(part):
                # A sentence of control characters has no words.
                if units := list(self._units(part, start, stop)):
                    decoded = self._decode(units, limit)
                    decoded_parts += decoded
                    before, follows = part.escape(part.text[end:start]), bool(sentences_of_paragraph)
                    sentences_of_paragraph.append(_Sentence(before, follows, units, len(decoded)))
                    end = stop
        all_sentences = list(chain.from_iterable(sentences.values()))
        words = tuple(unit.word for sentence in all_sentences for unit in sentence.units)
        translation = self.translator.join(words, decoded_parts, limit)
        candidates: dict[str, int] = {}
        paragraphs: list[TextParagraph] = []
        for candidate in range(max(1, len(translation.candidates))):
            written, written_paragraphs = self._written(parts, sentences, translation, candidate)
            candidates.setdefault(written, candidate)
            paragraphs = paragraphs or written_paragraphs
            if len(candidates) == best:
                break
        divided = sum(sentence.part_count > 1 for sentence in all_sentences)
        numbers = list(candidates.values()) if translation.candidates else []
        return TextTranslation(text, list(candidates), numbers, translation, paragraphs, divided)

    def _sentence_spans(self, paragraph: Paragraph) -> list[TextSpan]:
        """Return the spans of the sentences, grouped as in the store's pairs. No span ends within kept text."""
        # A tag such as a line break belongs to the sentence after it.
        text = paragraph.text
        tags = [span for span in paragraph.kept if _is_tag(span.written)]
        protected = [span for span in paragraph.kept if not _is_tag(span.written)]
        for span in tags:
            text = text[: span.start] + " " * (span.end - span.start) + text[span.end :]
        text_spans: list[TextSpan] = []
        for start, end in self.pipeline.source.rules.sentences(text):
            if text_spans and any(span.start < text_spans[-1][1] < span.end for span in protected):
                start = text_spans.pop()[0]
            before = text_spans[-1][1] if text_spans else 0
            text_spans.append((min([start, *(span.start for span in tags if before <= span.start)]), end))
        if text_spans:
            text_spans[-1] = (text_spans[-1][0], max([text_spans[-1][1], *(span.end for span in tags)]))
        size = self.translator.grammar.group_size
        groups = [text_spans[k : k + size] for k in range(0, len(text_spans), size)]
        return [(group[0][0], group[-1][1]) for group in groups]

    def _units(self, paragraph: Paragraph, start: int, stop: int) -> Iterator[_Unit]:
        protected = [span for span in paragraph.kept if start <= span.start < stop]
        source, target = self.pipeline.source, self.pipeline.target
        written = {span.start: span.written for span in protected}
        words: list[tuple[TextWord, TextSpan]] = []
        # Tokenize the text on both sides of a tag separately, so that no word extends across a tag.
        tags = [span for span in protected if _is_tag(span.written)]
        bounds = [start, *(boundary for span in tags for boundary in (span.start, span.end)), stop]
        for offset, end in pairwise(bounds):
            inner = [
                ProtectedSpan(span.start - offset, span.end - offset, paragraph.text[span.start : span.end])
                for span in protected
                if offset <= span.start and span.end <= end
            ]
            divided = self.translator.glossary.divide(source.words(paragraph.text[offset:end], inner))
            words += [(word, (word.start + offset, word.end + offset)) for word in divided]
        in_capitals = all_capital([word.token for word, _ in words if not word.is_protected])
        for word, text_span in words:
            if not word.is_protected:
                yield _Unit(self._known(word.token, in_capitals), word.token, text_span)
            elif (choices := paragraph.given.get(text_span[0])) is not None:
                choice_words = tuple(split_words(target.tokens(choice)) for choice in choices)
                yield _Unit(word.token, word.token, text_span, None, choice_words)
            else:
                yield _Unit(word.token, word.token, text_span, written[text_span[0]], ((word.token,),))

    def _known(self, word: str, in_capitals: bool) -> str:
        """Return a form of a source word that is in the grammar, else the word, in lowercase if `in_capitals`."""
        grammar, casing = self.translator.grammar, self.translator.grammar.source_casing
        small = casing.lower(word)
        forms = [small, casing.capitalize(small), word] if in_capitals else [word, small, casing.capitalize(word)]
        known = [form for form in forms if form in grammar.source_numbers]
        standalone = (form for form in known if grammar.source_numbers[form] in grammar.standalone)
        return next(standalone, known[0] if known else forms[0])

    def _decode(self, units: Sequence[_Unit], best: int) -> list[DecodedPart]:
        # Pass words with digits through if a part has no derivation with the source's numbers.
        parts = self.translator.decode(_input_phrases(units, keep_numbers=False), best)
        if not all(map(_with_source_numbers, parts)):
            parts = self.translator.decode(_input_phrases(units, keep_numbers=True), best)
        return [self.translator.select(part, best, _with_source_numbers(part)) for part in parts]

    def _written(
        self, parts: Sequence[Part], sentences: dict[int, list[_Sentence]], translation: Translation, candidate: int
    ) -> tuple[str, list[TextParagraph]]:
        links: list[list[int]] = [[] for _ in translation.source]
        for i, j in translation.alignment(candidate):
            links[i].append(j)
        fixed_positions = {
            first_word + j
            for part, number, _, first_word in translation.iterate_parts(candidate)
            for j in given_positions(part, number)
        }
        words = translation.candidates[candidate].words if translation.candidates else ()
        ends = [target for *_, target in translation.iterate_parts(candidate)] + [len(words)]
        out: list[str] = []
        paragraphs: list[TextParagraph] = []
        source = part_index = 0
        for number, part in enumerate(parts):
            if isinstance(part, str) or not sentences.get(number):
                out += [part] if isinstance(part, str) else _tagged(part, part.tag_pairs, 0, len(part.text))
                continue
            first, begin = source, ends[part_index]
            written: list[tuple[str, str]] = []
            text_spans: list[TextSpan] = []
            for sentence in sentences[number]:
                start, end = ends[part_index], ends[part_index + sentence.part_count]
                unit_links = links[source : source + len(sentence.units)]
                linked = [[j - start for j in unit_targets] for unit_targets in unit_links]
                fixed = {j - start for j in fixed_positions if start <= j < end}
                written += self._sentence(part, sentence, words[start:end], linked, fixed)
                text_spans += [unit.text_span for unit in sentence.units]
                source += len(sentence.units)
                part_index += sentence.part_count
            pairs = [(i - first, j - begin) for i in range(first, source) for j in links[i]]
            tags, tagged = _tagged_words(part, text_spans, pairs, written)
            out += _assembled(place_tags(tags, text_spans, pairs, len(written)), tagged)
            out.append(part.escape(part.text[text_spans[-1][1] :]))
            paragraphs.append(TextParagraph(part.text, (first, source), (begin, ends[part_index]), text_spans, written))
        return "".join(out), paragraphs

    def _sentence(
        self, paragraph: Paragraph, sentence: _Sentence, words: Sequence[str], linked: Links, fixed: Collection[int]
    ) -> Iterator[tuple[str, str]]:
        """Yield displayed words, each with the text before it. `fixed` are positions of given translations."""
        units = sentence.units
        protected = {linked[k][0]: k for k, unit in enumerate(units) if unit.written is not None}
        # Use the text instead of the tokens, which are in lowercase if the store's tokens are.
        texts = (paragraph.text[slice(*unit.text_span)].replace(SOFT_HYPHEN, "") for unit in units)
        source_words = [
            SourceWord(text, unit.word, unit.written is not None, _is_tag(unit.written))
            for text, unit in zip(texts, units, strict=True)
        ]
        grammar = self.translator.grammar
        cased = recase(grammar.source_casing, grammar.target_casing, words, source_words, linked, fixed)
        # Drop repeated and unpaired marks, unless the source also has such marks or the translation has nothing else.
        sources = [unit.word for unit in units]
        for find in (find_repeated, find_unpaired):
            if not find(sources):
                dropped = find(cased) - {*protected} - {*fixed}
                if any(word and j not in dropped for j, word in enumerate(cased)):
                    cased = ["" if j in dropped else word for j, word in enumerate(cased)]
        separators = self.pipeline.target.rules.separators(cased)
        if separators:
            separators[0] = self._before(sentence)
        default_separators = self.pipeline.source.rules.separators(sources)
        for (first, second), to_first, to_second, separator in zip(
            pairwise(units), linked, linked[1:], default_separators[1:], strict=False
        ):
            adjacent = [j for j in to_second if j - 1 in to_first]
            if first.text_span[1] == second.text_span[0]:
                _join_words(first, second, adjacent, cased, separators)
            elif not separator:
                # Keep an unusual space of the source between two words that are passed through.
                for j in adjacent:
                    if not separators[j] and (cased[j - 1], cased[j]) == (first.word, second.word):
                        separators[j] = paragraph.escape(paragraph.text[first.text_span[1] : second.text_span[0]])
        for j, (separator, word) in enumerate(zip(separators, cased, strict=True)):
            written = units[protected[j]].written if j in protected else None
            yield separator, paragraph.escape(token_text(word)) if written is None else written

    def _before(self, sentence: _Sentence) -> str:
        """Return the text before a sentence. Spaces are added or removed if only one language uses spaces."""
        before, spaced = sentence.before, self.pipeline.target.rules.spaced
        if spaced == self.pipeline.source.rules.spaced:
            return before
        if not spaced:
            return before.strip(" ")
        return before if before[-1:].isspace() or not sentence.follows else f"{before} "


def _join_words(
    first: _Unit, second: _Unit, adjacent: Sequence[int], words: Sequence[str], separators: list[str]
) -> None:
    """Remove spaces before `adjacent` translations of two joined words that are unchanged or punctuation."""
    if is_unspaced(first.word) or is_unspaced(second.word):
        return
    is_kept = first.written is not None or second.written is not None
    is_mark = not first.word[-1:].isalnum(), not second.word[:1].isalnum()
    for j in adjacent:
        if separators[j] == " ":
            is_same = words[j - 1].lower() == first.word.lower(), words[j].lower() == second.word.lower()
            is_preserved = (is_same[0] and is_mark[0]) or (is_same[1] and is_mark[1])
            # Keep the space before a word that translates a punctuation mark.
            same_kinds = [*map(is_word, words[j - 1 : j + 1])] == [is_word(first.word), is_word(second.word)]
            if is_kept or all(is_same) or (is_preserved and same_kinds):
                separators[j] = ""


def _is_tag(written: str | None) -> bool:
    return written is not None and written.startswith("<") and not is_word(TAG.sub("", written))


def as_plain(translated: TextTranslation) -> dict[str, Any]:
    """Return a text and its translations as JSON values, best first."""
    return {
        "source": translated.source,
        "translation": translated.text,
        "corrected": translated.corrected is not None,
        "tokens": " ".join(translated.translation.source),
        "parts": len(translated.translation.decoded_parts),
        "candidates": [
            {
                "translation": text,
                "tokens": candidate.text,
                "score": candidate.score,
                "features": candidate.features,
                "alignment": translated.alignment(number),
                "derivation": [asdict(use) for use in translated.derivation(number)],
            }
            for number, (text, candidate) in enumerate(zip(translated.texts, translated.candidates, strict=False))
        ],
    }


def _is_translatable(paragraph: Paragraph) -> bool:
    """Check if a paragraph has a given translation, or a letter or digit outside kept text."""
    bounds = [0, *(bound for span in paragraph.kept for bound in (span.start, span.end)), len(paragraph.text)]
    between = (paragraph.text[start:end] for start, end in zip(bounds[::2], bounds[1::2], strict=True))
    return bool(paragraph.given) or is_word("".join(between))


def _assembled(items: Iterable[PlacedItem], written: Sequence[tuple[str, str]]) -> Iterator[str]:
    """Yield words, tags, and the text before each word. This text follows closing and attached tags."""
    tags: list[str] = []
    for item in items:
        if isinstance(item, str):
            tags += [item] if item else []
            continue
        separator, word = written[item]
        before = list(takewhile(lambda tag: tag.startswith("</") or isinstance(tag, AttachedTag), tags))
        yield from (*before, separator, *tags[len(before) :], word)
        tags = []
    yield from tags


def _tagged_words(
    paragraph: Paragraph, text_spans: Sequence[TextSpan], links: Sequence[Span], written: Sequence[tuple[str, str]]
) -> tuple[list[TagPair], list[tuple[str, str]]]:
    """Insert tags inside unchanged words into their translations. Returns the other tags, and the words."""
    targets = {i: [j for _, j in group] for i, group in groupby(links, itemgetter(0))}
    words = list(written)
    inner: dict[int, list[TagPair]] = {}

    def others(pairs: Sequence[TagPair]) -> list[TagPair]:
        remaining = []
        for pair in pairs:
            k = next((k for k, text_span in enumerate(text_spans) if _is_within(pair, text_span)), None)
            word = None if k is None else paragraph.escape(paragraph.text[slice(*text_spans[k])])
            if k is not None and [written[j][1] for j in targets.get(k, [])] == [word]:
                inner.setdefault(k, []).append(pair)
            else:
                remaining.append(replace(pair, inside=others(pair.inside)))
        return remaining

    outer = others(paragraph.tag_pairs)
    for k, pairs in inner.items():
        [j] = targets[k]
        words[j] = (written[j][0], "".join(_tagged(paragraph, pairs, *text_spans[k])))
    return outer, words


def _is_within(pair: TagPair, text_span: TextSpan) -> bool:
    """Check if a tag pair is inside a word, but neither around the whole word nor empty at an end."""
    start, end = text_span
    return start <= pair.start < end and start < pair.end <= end and (pair.start, pair.end) != text_span


def _tagged(paragraph: Paragraph, pairs: Sequence[TagPair], start: int, end: int) -> Iterator[str]:
    for pair in pairs:
        yield paragraph.original(start, pair.start)
        yield pair.opening
        yield from _tagged(paragraph, pair.inside, pair.start, pair.end)
        yield pair.closing
        start = pair.end
    yield paragraph.original(start, end)


def _input_phrases(units: Sequence[_Unit], keep_numbers: bool) -> list[InputPhrase]:
    phrases: list[InputPhrase] = []

    def given_translations(unit: _Unit) -> tuple[Words, ...]:
        return ((unit.word,),) if keep_numbers and not unit.given and _NUMBER.search(unit.word) else unit.given

    for given, group in groupby(units, given_translations):
        if given:
            phrases += [InputPhrase((unit.word,), given) for unit in group]
        else:
            words, tokens = zip(*((unit.word, unit.token) for unit in group), strict=True)
            phrases.append(InputPhrase(words, (), tokens))
    return phrases


def _with_source_numbers(part: DecodedPart) -> list[int]:
    source_numbers = _numbers(part.source_words())
    return [k for k, words in enumerate(part.texts) if _numbers(words) == source_numbers]


def _numbers(words: Sequence[str]) -> Counter[str]:
    return Counter(number for word in words for number in _NUMBER.findall(word))
