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
    DocumentPart,
    Paragraph,
    PlacedItem,
    TagPair,
    divide_document,
    place_tags,
)
from hierogram.tools.translation.fixed_words import InputPhrase, Words, split_words
from hierogram.tools.translation.translating import Candidate, DecodedPart, Translation, Translator, given_positions

FindCorrection = Callable[[str, bool], str | None]
"""Callback that returns a user's correction of a text, or None: `(text, is HTML)`."""
TOKENS = "tokens"
"""Format of a line of text whose translations are tokens."""
_NUMERAL = re.compile(r"\d+")
_CANDIDATES_PER_TEXT = 3
"""Candidates per requested translation, because several candidates may have the same text."""


class _SourceUnit(NamedTuple):
    """Token of a sentence, which is decoded as one word."""

    # Form of the token to look up in the grammar.
    grammar_form: str
    token: str
    # Characters of the token in the text of the paragraph.
    text_span: TextSpan
    # Output of a kept span, as written in the document. None for other tokens.
    kept_text: str | None = None
    # Translations from markup, or the token itself if it is a kept span. Empty for other tokens.
    given: tuple[Words, ...] = ()


class _Sentence(NamedTuple):
    """Sentence, or group of sentences that are decoded together."""

    # Text before its translation in the paragraph. Escaped if the document is HTML.
    text_before: str
    units: list[_SourceUnit]
    part_count: int
    """Number of parts that were decoded separately, more than one for a long sentence."""


class DisplayedWord(NamedTuple):
    """Word of a translation as displayed, and the text before it, such as a space."""

    before: str
    text: str


class TextParagraph(NamedTuple):
    """Source paragraph with the words of its translation."""

    text: str
    """Source text, without paired tags."""
    source_span: Span
    """Its words among the source words of the whole translation."""
    target_span: Span
    """Its words among the target words of the whole translation."""
    text_spans: list[TextSpan]
    """Characters of each source word in `text`."""
    target_words: list[DisplayedWord]


@dataclass(frozen=True)
class TextTranslation:
    """Text with its translations `texts`, best first, at least one.

    `candidate_indices` are the indices of the texts among the candidates of `translation`, empty for a source without
    words. `paragraphs` belong to the best translation, and are empty if translations are tokens. `divided_sentences` is
    the number of sentences or groups translated in parts. `corrected` is a user's correction, which is not in `texts`.
    """

    source: str
    texts: list[str]
    candidate_indices: list[int]
    translation: Translation
    paragraphs: list[TextParagraph]
    divided_sentences: int = 0
    corrected: str | None = None

    @property
    def text(self) -> str:
        """User's correction if one exists, else the best translation."""
        return self.texts[0] if self.corrected is None else self.corrected

    @property
    def candidates(self) -> list[Candidate]:
        """Tokens, score and features of each of `texts`. Empty for a source without words."""
        return [self.translation.candidates[index] for index in self.candidate_indices]

    def alignment(self, index: int = 0) -> list[tuple[int, int]]:
        """Return the word links of `texts[index]`: (source position, target position), from 0."""
        return self.translation.alignment(self.candidate_indices[index]) if self.candidate_indices else []

    def derivation(self, index: int = 0) -> list[RuleUse]:
        """Return the rules of the derivation of `texts[index]`. Spans are word positions."""
        return self.translation.derivation(self.candidate_indices[index]) if self.candidate_indices else []


class TextTranslator:
    """Translator of running text, based on a translator of tokens. Thread-safe.

    If the pipeline of `translator` takes tokens, text is tokenized by the rules of its languages, or by general rules.
    Sentences are translated one by one, or in groups if the grammar's pairs have several sentences, such as verses.
    """

    def __init__(self, translator: Translator, find_correction: FindCorrection | None = None) -> None:
        self.translator = translator
        self.pipeline = translator.pipeline.for_running_text()
        self.default_format = TOKENS if translator.pipeline.rules is None else TEXT
        self._find_correction = find_correction

    def input_pipeline(self, format: str) -> TextPipeline:
        """Return the pipeline that tokenizes text of a format: for `tokens`, the translator's own pipeline."""
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
        """Translate a text of one or more paragraphs into up to `best` different texts. Line breaks are kept.

        Users' corrections are used if the format is not `tokens` and `markup` is False. With the format `tokens`, the
        text is one line, and `pipeline` replaces the translator's pipeline.
        """
        format = format or self.default_format
        if format == TOKENS:
            translation = self.translator.translate(text, best, markup=markup, pipeline=pipeline)
            texts = [candidate.text for candidate in translation.candidates]
            divided_sentences = int(len(translation.decoded_parts) > 1)
            return TextTranslation(text, texts or [""], list(range(len(texts))), translation, [], divided_sentences)
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
        """Translate text or HTML into up to `best` different texts of the first `limit` candidates."""
        document = divide_document(text, format, markup)
        decoded_parts: list[DecodedPart] = []
        # Sentences of each paragraph, by the index of the paragraph in the document.
        sentences: dict[int, list[_Sentence]] = {}
        for index, part in enumerate(document):
            if not isinstance(part, Paragraph) or not _is_translatable(part):
                continue
            sentences_of_paragraph = sentences.setdefault(index, [])
            end = 0
            for start, stop in self._sentence_spans(part):
                # A sentence of control characters has no words.
                if units := list(self._units(part, start, stop)):
                    decoded = self._decode(units, limit)
                    decoded_parts += decoded
                    text_before = self._text_between(part.escape(part.text[end:start]), not sentences_of_paragraph)
                    sentences_of_paragraph.append(_Sentence(text_before, units, len(decoded)))
                    end = stop
        all_sentences = list(chain.from_iterable(sentences.values()))
        words = tuple(unit.grammar_form for sentence in all_sentences for unit in sentence.units)
        translation = self.translator.join(words, decoded_parts, limit)
        candidates: dict[str, int] = {}
        paragraphs: list[TextParagraph] = []
        for candidate in range(max(1, len(translation.candidates))):
            candidate_text, candidate_paragraphs = self._render(document, sentences, translation, candidate)
            candidates.setdefault(candidate_text, candidate)
            paragraphs = paragraphs or candidate_paragraphs
            if len(candidates) == best:
                break
        divided_sentences = sum(sentence.part_count > 1 for sentence in all_sentences)
        indices = list(candidates.values()) if translation.candidates else []
        return TextTranslation(text, list(candidates), indices, translation, paragraphs, divided_sentences)

    def _sentence_spans(self, paragraph: Paragraph) -> list[TextSpan]:
        """Return the character spans of sentences or groups. No span ends inside a kept span."""
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

    def _units(self, paragraph: Paragraph, start: int, stop: int) -> Iterator[_SourceUnit]:
        protected = [span for span in paragraph.kept if start <= span.start < stop]
        source, target = self.pipeline.source, self.pipeline.target
        kept_texts = {span.start: span.written for span in protected}
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
                yield _SourceUnit(self._grammar_form(word.token, in_capitals), word.token, text_span)
            elif (choices := paragraph.given.get(text_span[0])) is not None:
                choice_words = tuple(split_words(target.tokens(choice)) for choice in choices)
                yield _SourceUnit(word.token, word.token, text_span, None, choice_words)
            else:
                yield _SourceUnit(word.token, word.token, text_span, kept_texts[text_span[0]], ((word.token,),))

    def _grammar_form(self, word: str, in_capitals: bool) -> str:
        """Return a form of a source word in the grammar, or else the word, in lowercase if `in_capitals`."""
        grammar, casing = self.translator.grammar, self.translator.grammar.source_casing
        small = casing.lower(word)
        forms = [small, casing.capitalize(small), word] if in_capitals else [word, small, casing.capitalize(word)]
        known = [form for form in forms if form in grammar.source_numbers]
        standalone = (form for form in known if grammar.source_numbers[form] in grammar.standalone)
        return next(standalone, known[0] if known else forms[0])

    def _decode(self, units: Sequence[_SourceUnit], best: int) -> list[DecodedPart]:
        """Return up to `best` derivations of each part, if possible with the numerals of the source."""
        parts = self.translator.decode(_input_phrases(units, keep_numerals=False), best)
        if not all(map(_select_by_numerals, parts)):
            # A part has no derivation with the source's numerals, so pass words with digits through.
            parts = self.translator.decode(_input_phrases(units, keep_numerals=True), best)
        return [self.translator.select(part, best, _select_by_numerals(part)) for part in parts]

    def _render(
        self, document: Sequence[DocumentPart], sentences: dict[int, list[_Sentence]], translation: Translation,
        candidate: int,
    ) -> tuple[str, list[TextParagraph]]:  # fmt: skip
        links: list[list[int]] = [[] for _ in translation.source]
        for i, j in translation.alignment(candidate):
            links[i].append(j)
        given = {
            first_word + j
            for part, derivation, _, first_word in translation.iterate_parts(candidate)
            for j in given_positions(part, derivation)
        }
        words = translation.candidates[candidate].words if translation.candidates else ()
        # Offset of the first target word of each decoded part, and the number of words.
        offsets = [target for *_, target in translation.iterate_parts(candidate)] + [len(words)]
        out: list[str] = []
        paragraphs: list[TextParagraph] = []
        source_offset = part_index = 0
        for index, part in enumerate(document):
            if isinstance(part, str) or not sentences.get(index):
                out += [part] if isinstance(part, str) else _original(part, part.tag_pairs, 0, len(part.text))
                continue
            first_source, first_target = source_offset, offsets[part_index]
            displayed: list[DisplayedWord] = []
            text_spans: list[TextSpan] = []
            for sentence in sentences[index]:
                start, end = offsets[part_index], offsets[part_index + sentence.part_count]
                unit_links = links[source_offset : source_offset + len(sentence.units)]
                linked = [[j - start for j in unit_targets] for unit_targets in unit_links]
                given_in_sentence = {j - start for j in given if start <= j < end}
                displayed += self._render_sentence(part, sentence, words[start:end], linked, given_in_sentence)
                text_spans += [unit.text_span for unit in sentence.units]
                source_offset += len(sentence.units)
                part_index += sentence.part_count
            source_span, target_span = (first_source, source_offset), (first_target, offsets[part_index])
            pairs = [(i - first_source, j - first_target) for i in range(*source_span) for j in links[i]]
            outer_tags, tagged = _insert_inner_tags(part, text_spans, pairs, displayed)
            out += _join_words_and_tags(place_tags(outer_tags, text_spans, pairs, len(displayed)), tagged)
            out.append(part.escape(part.text[text_spans[-1][1] :]))
            paragraphs.append(TextParagraph(part.text, source_span, target_span, text_spans, displayed))
        return "".join(out), paragraphs

    def _render_sentence(
        self, paragraph: Paragraph, sentence: _Sentence, words: Sequence[str], linked: Links, given: Collection[int]
    ) -> Iterator[DisplayedWord]:
        """Yield the target words with case and spacing. `given` are positions of given translations."""
        units = sentence.units
        protected = {linked[k][0]: k for k, unit in enumerate(units) if unit.kept_text is not None}
        # Use the text instead of the tokens, which are in lowercase if the store's tokens are.
        texts = (paragraph.text[slice(*unit.text_span)].replace(SOFT_HYPHEN, "") for unit in units)
        source_words = [
            SourceWord(text, unit.grammar_form, unit.kept_text is not None, _is_tag(unit.kept_text))
            for text, unit in zip(texts, units, strict=True)
        ]
        grammar = self.translator.grammar
        cased = recase(grammar.source_casing, grammar.target_casing, words, source_words, linked, given)
        # Drop repeated and unpaired marks, unless the source also has such marks or the translation has nothing else.
        sources = [unit.grammar_form for unit in units]
        for find_marks in (find_repeated, find_unpaired):
            if not find_marks(sources):
                dropped = find_marks(cased) - {*protected} - {*given}
                if any(word and j not in dropped for j, word in enumerate(cased)):
                    cased = ["" if j in dropped else word for j, word in enumerate(cased)]
        separators = self.pipeline.target.rules.separators(cased)
        if separators:
            separators[0] = sentence.text_before
        default_separators = self.pipeline.source.rules.separators(sources)
        for (first, second), to_first, to_second, separator in zip(
            pairwise(units), linked, linked[1:], default_separators[1:], strict=False
        ):
            adjacent = [j for j in to_second if j - 1 in to_first]
            if first.text_span[1] == second.text_span[0]:
                _remove_spaces(first, second, adjacent, cased, separators)
            elif not separator:
                # Keep an unusual space of the source between two words that are passed through.
                for j in adjacent:
                    if not separators[j] and (cased[j - 1], cased[j]) == (first.grammar_form, second.grammar_form):
                        separators[j] = paragraph.escape(paragraph.text[first.text_span[1] : second.text_span[0]])
        for j, (separator, word) in enumerate(zip(separators, cased, strict=True)):
            kept_text = units[protected[j]].kept_text if j in protected else None
            yield DisplayedWord(separator, paragraph.escape(token_text(word)) if kept_text is None else kept_text)

    def _text_between(self, text: str, is_first: bool) -> str:
        """Return the text before a sentence. Spaces are added or removed if only one language uses spaces."""
        spaced = self.pipeline.target.rules.spaced
        if spaced == self.pipeline.source.rules.spaced:
            return text
        if not spaced:
            return text.strip(" ")
        return text if text[-1:].isspace() or is_first else f"{text} "


def _remove_spaces(
    first: _SourceUnit, second: _SourceUnit, adjacent: Sequence[int], words: Sequence[str], separators: list[str]
) -> None:
    """Remove spaces before `adjacent` translations of two joined words that are unchanged or punctuation."""
    words_before = first.grammar_form, second.grammar_form
    if any(map(is_unspaced, words_before)):
        return
    is_kept = first.kept_text is not None or second.kept_text is not None
    is_mark = not words_before[0][-1:].isalnum(), not words_before[1][:1].isalnum()
    for j in adjacent:
        if separators[j] == " ":
            is_same = [new.lower() == old.lower() for new, old in zip(words[j - 1 : j + 1], words_before, strict=True)]
            is_preserved = (is_same[0] and is_mark[0]) or (is_same[1] and is_mark[1])
            # Keep the space before a word that translates a punctuation mark.
            same_kinds = [*map(is_word, words[j - 1 : j + 1])] == [*map(is_word, words_before)]
            if is_kept or all(is_same) or (is_preserved and same_kinds):
                separators[j] = ""


def _is_tag(kept_text: str | None) -> bool:
    """Check if kept text is markup without words, such as a tag that has no partner."""
    return kept_text is not None and kept_text.startswith("<") and not is_word(TAG.sub("", kept_text))


def as_plain(translated: TextTranslation) -> dict[str, Any]:
    """Return a text and its translations, best first, as JSON values: the fields of `web.SentenceAnswer`."""
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
                "alignment": translated.alignment(index),
                "derivation": [asdict(use) for use in translated.derivation(index)],
            }
            for index, (text, candidate) in enumerate(zip(translated.texts, translated.candidates, strict=False))
        ],
    }


def _is_translatable(paragraph: Paragraph) -> bool:
    """Check if a paragraph has a given translation, or a letter or digit outside kept text."""
    bounds = [0, *(bound for span in paragraph.kept for bound in (span.start, span.end)), len(paragraph.text)]
    between = (paragraph.text[start:end] for start, end in zip(bounds[::2], bounds[1::2], strict=True))
    return bool(paragraph.given) or is_word("".join(between))


def _join_words_and_tags(items: Iterable[PlacedItem], words: Sequence[DisplayedWord]) -> Iterator[str]:
    """Yield words, tags, and the text before each word. This text follows closing and attached tags."""
    tags: list[str] = []
    for item in items:
        if isinstance(item, str):
            tags += [item] if item else []
            continue
        word = words[item]
        attached = list(takewhile(lambda tag: tag.startswith("</") or isinstance(tag, AttachedTag), tags))
        yield from (*attached, word.before, *tags[len(attached) :], word.text)
        tags = []
    yield from tags


def _insert_inner_tags(
    paragraph: Paragraph,
    text_spans: Sequence[TextSpan],
    links: Sequence[tuple[int, int]],
    words: Sequence[DisplayedWord],
) -> tuple[list[TagPair], list[DisplayedWord]]:
    """Insert tags inside unchanged words into their translations. Returns the other tags, and the words."""
    targets = {i: [j for _, j in group] for i, group in groupby(links, itemgetter(0))}
    inner_tags: dict[int, list[TagPair]] = {}

    def collect_inner(pairs: Sequence[TagPair]) -> list[TagPair]:
        """Add pairs inside unchanged words to `inner_tags`, and return the other pairs."""
        outer_pairs = []
        for pair in pairs:
            k = next((k for k, text_span in enumerate(text_spans) if _is_within(pair, text_span)), None)
            source_text = None if k is None else paragraph.escape(paragraph.text[slice(*text_spans[k])])
            if k is not None and [words[j].text for j in targets.get(k, [])] == [source_text]:
                inner_tags.setdefault(k, []).append(pair)
            else:
                outer_pairs.append(replace(pair, inside=collect_inner(pair.inside)))
        return outer_pairs

    outer_tags = collect_inner(paragraph.tag_pairs)
    tagged = list(words)
    for k, pairs in inner_tags.items():
        [j] = targets[k]
        tagged[j] = DisplayedWord(words[j].before, "".join(_original(paragraph, pairs, *text_spans[k])))
    return outer_tags, tagged


def _is_within(pair: TagPair, text_span: TextSpan) -> bool:
    """Check if a tag pair is inside a word, but neither around the whole word nor empty at an end."""
    start, end = text_span
    return start <= pair.start < end and start < pair.end <= end and (pair.start, pair.end) != text_span


def _original(paragraph: Paragraph, pairs: Sequence[TagPair], start: int, end: int) -> Iterator[str]:
    for pair in pairs:
        yield paragraph.original(start, pair.start)
        yield pair.opening
        yield from _original(paragraph, pair.inside, pair.start, pair.end)
        yield pair.closing
        start = pair.end
    yield paragraph.original(start, end)


def _input_phrases(units: Sequence[_SourceUnit], keep_numerals: bool) -> list[InputPhrase]:
    phrases: list[InputPhrase] = []

    def given_translations(unit: _SourceUnit) -> tuple[Words, ...]:
        is_kept = keep_numerals and not unit.given and _NUMERAL.search(unit.grammar_form)
        return ((unit.grammar_form,),) if is_kept else unit.given

    for given, group in groupby(units, given_translations):
        if given:
            phrases += [InputPhrase((unit.grammar_form,), given) for unit in group]
        else:
            words, tokens = zip(*((unit.grammar_form, unit.token) for unit in group), strict=True)
            phrases.append(InputPhrase(words, (), tokens))
    return phrases


def _select_by_numerals(part: DecodedPart) -> list[int]:
    numerals = _count_numerals(part.source_words())
    return [k for k, words in enumerate(part.translations) if _count_numerals(words) == numerals]


def _count_numerals(words: Sequence[str]) -> Counter[str]:
    return Counter(numeral for word in words for numeral in _NUMERAL.findall(word))
