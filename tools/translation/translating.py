"""Sentence translation with a grammar, feature weights and a language model.

The decoder translates input symbols: words, parts of words, and phrases with a given translation. If several known
words replace an unknown word, its first symbol contains the word, and its other symbols are empty.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache, cached_property
from itertools import accumulate, compress, pairwise
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.daemon.deadline import check_deadline
from hierogram.daemon.exports.formats import DEFAULT_WEIGHTS, WORDS
from hierogram.daemon.prefetch import Result, map_in_threads
from hierogram.daemon.text.pipeline import UNCHANGED_TEXT, TextPipeline
from hierogram.daemon.text.segments import CompoundSegmenter, SubwordSegmenter, make_segmenter
from hierogram.daemon.text.word_view import find_word_span
from hierogram.samplers.decoding.chart import (
    GLUE_NEXT,
    GLUE_START,
    GOAL,
    DecodingChart,
    InputSentence,
    SearchLimits,
    cell_span,
)
from hierogram.samplers.decoding.consensus import CANDIDATES, choose_consensus
from hierogram.samplers.decoding.decoder import DEFAULT_POPS, MAX_SPAN, SentenceDecoder
from hierogram.samplers.decoding.grammar import COUNTED_FEATURES, UNKNOWN_SYMBOL, no_model
from hierogram.samplers.decoding.kbest import Outputs
from hierogram.samplers.grammar.rules import RuleUse, Side, Span, render_side
from hierogram.samplers.language_models.vocabulary import GrowingVocabulary
from hierogram.storage.records.parts import index_words, is_modifier, join_parts
from hierogram.tools.translation.casing import is_word
from hierogram.tools.translation.fixed_words import Glossary, InputPhrase, Words, input_phrases, split_words
from hierogram.tools.translation.grammars import TranslationGrammar, pack_grammar
from hierogram.tools.translation.language_models import ModelWithVocabulary
from hierogram.tools.translation.oov_substitutes import SubstituteFinder, is_capitalized_within_sentence
from hierogram.tools.translation.rule_files import RuleReader

if TYPE_CHECKING:
    from hierogram.daemon.learning.kinds.kind import LoadedBatch


class _Use(NamedTuple):
    """Rule in a derivation, its spans of input symbols and target tokens, and the rules in its gaps."""

    rule: int
    source: Span
    target: Span
    children: "list[_Use]"


@dataclass(frozen=True)
class DecodedPart:
    """Decoded part of a sentence. `extra_words` contains target words that are not in the grammar.

    `word_starts` contains the index of the first source word of each input symbol, and the number of source words. If
    the grammar has parts of words, input symbols and target tokens are parts, but `translations` and `source_words` are
    whole words.
    """

    grammar: TranslationGrammar
    sentence: InputSentence
    outputs: Outputs
    symbol_words: list[Words]
    extra_words: list[str]
    word_starts: list[int]

    def select_derivations(self, indices: Sequence[int]) -> "DecodedPart":
        """Return a copy with only the derivations `indices`, in this order."""
        out = self.outputs
        words = [out.words[slice(*out.word_start[k : k + 2])] for k in indices]
        uses = [out.uses[slice(*out.use_start[k : k + 2])] for k in indices]
        starts = [np.cumsum([0, *map(len, arrays)], dtype=np.int64) for arrays in (words, uses)]
        features, scores = out.features[indices], out.scores[indices]
        outputs = Outputs(np.concatenate(words), starts[0], np.concatenate(uses), starts[1], features, scores)
        return replace(self, outputs=outputs)

    @cached_property
    def translations(self) -> list[Words]:
        """Target words of each derivation."""
        out = self.outputs
        numbers, inverse = np.unique(out.words, return_inverse=True)
        tokens = np.array([*map(self._target_token, numbers.tolist())], object)[inverse].tolist()
        return [self._whole_words(tuple(tokens[start:end])) for start, end in pairwise(out.word_start.tolist())]

    def source_words(self) -> Words:
        """Return the source words, joined from parts of words."""
        return self._whole_words(tuple(word for words in self.symbol_words for word in words))

    def _whole_words(self, tokens: Words) -> Words:
        return split_words(join_parts(" ".join(tokens))) if self.grammar.pipeline.word_parts else tokens

    def source_span(self, first: int, last: int) -> Span:
        """Return the half-open span of source words of the input symbols `first` to `last` - 1."""
        # A part of a compound covers its whole word.
        return self.word_starts[first], max(self.word_starts[last], self.word_starts[last - 1] + 1)

    def word_indices(self, derivation: int) -> list[int]:
        """Return the index of the target word of each token of a derivation, followed by the number of words."""
        out = self.outputs
        numbers = out.words[slice(*out.word_start[derivation : derivation + 2])].tolist()
        tokens = tuple(map(self._target_token, numbers))
        return index_words(tokens) if self.grammar.pipeline.word_parts else list(range(len(tokens) + 1))

    def _target_token(self, number: int) -> str:
        known = len(self.grammar.target_words)
        return self.grammar.target_words[number] if number < known else self.extra_words[number - known]

    def sides(self, use: _Use) -> tuple[Side, Side]:
        """Return both sides of a rule. Nonterminals of both sides are numbered from 1 in source order."""
        rules = self.grammar.packed.rules
        if use.rule == GLUE_NEXT:
            return (1, 2), (1, 2)
        if use.rule >= rules:
            sentence, extra = self.sentence, use.rule - rules
            target = sentence.target[sentence.target_start[extra] : sentence.target_start[extra + 1]].tolist()
            return self.symbol_words[use.source[0]], tuple(map(self._target_token, target))
        source, target = self.grammar.packed.source_side(use.rule), self.grammar.packed.target_side(use.rule)
        words = self.grammar.source_words
        return (
            tuple(-symbol if symbol < 0 else words[symbol] for symbol in source),
            tuple(-symbol if symbol < 0 else self._target_token(symbol) for symbol in target),
        )

    def uses(self, derivation: int) -> list[_Use]:
        """Return the rules of a derivation, top-down in source order, without the goal rule and S → X."""
        out = self.outputs
        uses = out.uses[slice(*out.use_start[derivation : derivation + 2])]
        below: dict[int, dict[int, int]] = {}
        for k, parent in enumerate(uses["parent"].tolist()):
            below.setdefault(parent, {})[int(uses["slot"][k])] = k
        symbols = len(self.sentence.words)
        nodes: dict[int, _Use] = {}
        # Iterate in reverse, because the rules in a rule's gaps follow the rule.
        for k in reversed(range(len(uses))):
            children = [nodes[child] for _, child in sorted(below.get(k, {}).items())]
            rule = int(uses["rule"][k])
            if rule in (GOAL, GLUE_START):
                nodes[k] = children[0]
            else:
                target = (int(uses["first"][k]), int(uses["last"][k]))
                nodes[k] = _Use(rule, cell_span(symbols, int(uses["cell"][k])), target, children)
        uses_in_order, waiting = [], [nodes[0]]
        while waiting:
            uses_in_order.append(waiting.pop())
            waiting += reversed(uses_in_order[-1].children)
        return uses_in_order


def _list_links(part: DecodedPart, derivation: int) -> list[tuple[int, int]]:
    """Return sorted word links. Given translations and words passed through link all their words."""
    check_deadline()
    words = part.word_indices(derivation)
    links: set[tuple[int, int]] = set()
    for use in part.uses(derivation):
        if use.rule >= part.grammar.packed.rules:
            sources = range(*part.source_span(*use.source))
            links |= {(i, words[j]) for i in sources for j in range(*use.target)}
        elif use.rule >= 0:
            source, target = part.sides(use)
            symbols = _symbol_positions(source, use.source[0], [child.source for child in use.children])
            tokens = _symbol_positions(target, use.target[0], [child.target for child in use.children])
            rule_links = part.grammar.packed.rule_links(use.rule)
            links |= {(part.word_starts[symbols[i]], words[tokens[j]]) for i, j in rule_links}
    return sorted(links)


def given_positions(part: DecodedPart, derivation: int) -> Iterator[int]:
    """Yield the indices of target words that a glossary or markup prescribes (given translations)."""
    words, passes = part.word_indices(derivation), part.sentence.passes
    for use in part.uses(derivation):
        extra = use.rule - part.grammar.packed.rules
        if extra >= 0 and not passes[extra]:
            yield from (words[j] for j in range(*use.target))


def _symbol_positions(side: Side, start: int, child_spans: list[Span]) -> list[int]:
    """Return the start of each symbol of a rule's side. Nonterminals have the spans of children."""
    positions = []
    for symbol in side:
        positions.append(start)
        start = start + 1 if isinstance(symbol, str) else child_spans[symbol - 1][1]
    return positions


MAX_WORDS = 100
"""Maximum number of words and given phrases decoded at once. Longer sentences are split into parts."""
_LOOK_BACK = 3
"""A part ends after a punctuation mark in its last `MAX_WORDS` // `_LOOK_BACK` words, if any."""
_QUEUED_PER_THREAD = 4
_LENGTH_STEP, _MAX_LENGTH_STEPS = 0.25, 5
"""Increase of the word weight if a translation is too short, and the maximum number of increases."""
_MIN_LENGTH_RATIO = 1.05
"""Minimum ratio of a translation's letters to the letters expected from the store's pairs."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """Words, score w · f, nonzero features, and the derivation index in each part."""

    words: Words
    score: float
    features: dict[str, float]
    derivations: tuple[int, ...]

    @property
    def text(self) -> str:
        """Words, separated by spaces."""
        return " ".join(self.words)


@dataclass(frozen=True)
class Translation:
    """N-best list of one or several sentences, best first. No candidates if the source has no words."""

    source: Words
    candidates: list[Candidate]
    decoded_parts: list[DecodedPart]

    @property
    def text(self) -> str:
        """Best translation. Empty if the source has no words."""
        return self.candidates[0].text if self.candidates else ""

    def iterate_parts(self, candidate: int) -> Iterator[tuple[DecodedPart, int, int, int]]:
        """Yield each part, its derivation in a candidate, and the offsets of its source and target words."""
        source = target = 0
        derivations = self.candidates[candidate].derivations if self.candidates else ()
        for part, derivation in zip(self.decoded_parts, derivations, strict=True):
            yield part, derivation, source, target
            source += part.word_starts[-1]
            target += len(part.translations[derivation])

    def alignment(self, candidate: int = 0) -> list[tuple[int, int]]:
        """Return the word links of a candidate: (source position, target position), from 0."""
        return [
            (source + i, target + j)
            for part, derivation, source, target in self.iterate_parts(candidate)
            for i, j in _list_links(part, derivation)
        ]

    def derivation(self, candidate: int = 0) -> list[RuleUse]:
        """Return the rules of a candidate's derivation, top-down in source order, part by part."""
        rule_uses: list[RuleUse] = []
        for part, derivation, source, target in self.iterate_parts(candidate):
            uses, words = part.uses(derivation), part.word_indices(derivation)
            numbers = {id(use): k for k, use in enumerate(uses, len(rule_uses))}
            for use in uses:
                (first, last), (start, end) = part.source_span(*use.source), find_word_span(words, use.target)
                spans = (source + first, source + last), (target + start, target + end)
                children = tuple(numbers[id(child)] for child in use.children)
                source_side, target_side = map(render_side, part.sides(use))
                rule_uses.append(RuleUse(source_side, target_side, *spans, children))
        return rule_uses


class _InputSymbol(NamedTuple):
    # Source words of the symbol, or a part of a word. Empty for the second and later substitutes of an unknown word.
    words: Words
    # Source symbol in the grammar, or `UNKNOWN_SYMBOL`.
    number: int
    # Given translations, which replace all rules.
    given: tuple[Words, ...]
    # Target words if the symbol has no given translation, and no rule translates it by itself.
    passed: Words
    # Number of source words that end with this symbol.
    ended_words: int


class Translator:
    """Translator of single sentences into tokens. Thread-safe."""

    def __init__(
        self,
        grammar: TranslationGrammar,
        weights: Mapping[str, float],
        model: ModelWithVocabulary | None = None,
        *,
        pops: int = DEFAULT_POPS,
        oov_similarity: float = 0.0,
        lengthen: bool = False,
        glossary: Glossary | None = None,
        pipeline: TextPipeline = UNCHANGED_TEXT,
    ) -> None:
        """Build a decoder. `pipeline` must have tokenized the glossary. `lengthen` avoids short translations."""
        self.grammar = grammar
        self.feature_names = (*grammar.features, *COUNTED_FEATURES)
        self._model = model
        # Choose no consensus without a language model: other orders of the same words have nearly the same score.
        self._consensus_size = 1 if model is None else CANDIDATES
        self.glossary = glossary or Glossary()
        self.pipeline = pipeline
        self._segmenters = [make_segmenter(parts) for parts in grammar.pipeline.word_parts]
        self._oov_similarity = oov_similarity
        lm_words = self._lm_words(grammar.target_words)
        self._max_length_steps = _MAX_LENGTH_STEPS if lengthen and grammar.length_ratio else 0
        base = np.array([float(weights.get(name, 0.0)) for name in self.feature_names])
        longer = _LENGTH_STEP * np.array([name == WORDS for name in self.feature_names])
        lm, limits, charts = None if model is None else model.model, SearchLimits(MAX_SPAN, pops), list[DecodingChart]()
        self._decoder = cache(
            lambda step: SentenceDecoder(grammar.packed, base + step * longer, lm_words, lm, limits, charts)
        )

    def _lm_words(self, words: list[str]) -> NDArray[np.int32]:
        """Return the language model's numbers of target words, or zeros without a language model."""
        return np.zeros(len(words), np.int32) if self._model is None else self._model.vocabulary.numbers(words)

    @cached_property
    def _substitutes(self) -> SubstituteFinder:
        """Finder of substitutes. The frequency of a word is its number of nodes in the trie of source sides."""
        grammar = self.grammar
        symbols = grammar.packed.symbol
        frequencies = np.bincount(symbols[symbols >= 0], minlength=len(grammar.source_words)).tolist()
        known = grammar.source_numbers, grammar.standalone, frequencies, self._oov_similarity
        return SubstituteFinder(*known, grammar.source_casing, grammar.target_numbers)

    def translate(
        self, line: str, best: int = 1, *, markup: bool = False, pipeline: TextPipeline | None = None
    ) -> Translation:
        """Translate a line into up to `best` candidates with different words. `pipeline` replaces the default."""
        pipeline = self.pipeline if pipeline is None else pipeline
        phrases = [
            phrase if phrase.given else InputPhrase(self.glossary.divide_words(phrase.words))
            for phrase in input_phrases(line, pipeline, markup=markup)
        ]
        source = tuple(word for phrase in phrases for word in phrase.words)
        return self.join(source, [self.select(part, best) for part in self.decode(phrases, best)], best)

    def decode(self, phrases: list[InputPhrase], best: int) -> list[DecodedPart]:
        """Return the decoded parts of a sentence, each with `best` or more derivations if they exist."""
        return [self._decode_part(split, best) for split in self._split_long(self.glossary.apply(phrases))]

    def select(self, part: DecodedPart, best: int, derivations: Sequence[int] = ()) -> DecodedPart:
        """Return a part with up to `best` of its `derivations` (default: all), the consensus first."""
        rows = list(derivations or range(len(part.outputs.scores)))
        compared = rows[: self._consensus_size]
        first = rows.pop(choose_consensus([part.translations[k] for k in compared], part.outputs.scores[compared]))
        return part.select_derivations([first, *rows][:best])

    def join(self, source: Words, parts: list[DecodedPart], best: int) -> Translation:
        """Join the n-best lists of all parts. The first candidate joins the first candidates of the parts."""
        joined = best_combinations([self._candidates(part) for part in parts], best) if parts else []
        return Translation(source, joined, parts)

    def _split_long(self, phrases: Iterable[InputPhrase]) -> Iterator[list[InputPhrase]]:
        """Yield lists of phrases to decode at once: single words, and phrases with a given translation."""
        items: list[InputPhrase] = []
        for phrase in phrases:
            items += [phrase] if phrase.given else [InputPhrase((word,)) for word in phrase.words]
        while len(items) > MAX_WORDS:
            sizes = range(MAX_WORDS, MAX_WORDS - MAX_WORDS // _LOOK_BACK, -1)
            last_items = (items[size - 1] for size in sizes)
            ends_in_mark = (not item.given and not is_word(item.words[0]) for item in last_items)
            cut = next(compress(sizes, ends_in_mark), MAX_WORDS)
            yield items[:cut]
            items = items[cut:]
        if items:
            yield items

    def _symbols(self, items: list[InputPhrase]) -> Iterator[_InputSymbol]:
        grammar, before = self.grammar, ""
        for item in items:
            if item.given:
                given = item.given
                if self._segmenters:
                    segmented = (self._segmenters[1].split_line(" ".join(words)) for words in given)
                    given = tuple(map(split_words, segmented))
                yield _InputSymbol(item.words, UNKNOWN_SYMBOL, given, (), len(item.words))
            else:
                word = item.words[0]
                parts, numbers = self._word_parts(word, before)
                for k, (part, number) in enumerate(zip(parts, numbers, strict=True)):
                    passed = grammar.linked_words(number) if number >= 0 and number not in grammar.standalone else None
                    if passed is None and len(parts) > 1 and not is_modifier(parts[0]):
                        # A subword must not be attached to a word of the target language. So the first one passes the
                        # whole word through, and the others nothing.
                        passed = () if k else (word,)
                    elif passed is None:
                        passed = (join_parts(part),) if part else ()
                    yield _InputSymbol((part,) if part else (), number, (), passed, int(k == len(parts) - 1))
            before = item.words[-1]

    def _word_parts(self, word: str, before: str) -> tuple[Words, list[int]]:
        """Return the parts of a source word and their numbers, or the word and its substitutes' numbers."""
        known = self.grammar.source_numbers
        segmenter = self._segmenters[0] if self._segmenters else None
        parts = split_words(segmenter.split_line(word)) if segmenter else (word,)
        numbers = [known.get(part, UNKNOWN_SYMBOL) for part in parts]
        if isinstance(segmenter, SubwordSegmenter):
            # Parts of a rare name would be translated as other words.
            is_name = is_capitalized_within_sentence(word, before) and not self.grammar.source_casing.nouns
            if len(parts) > 1 and is_name and not self.grammar.packed.has_source_side(numbers):
                return (word,), [UNKNOWN_SYMBOL]
            return parts, numbers
        if UNKNOWN_SYMBOL not in numbers:
            return parts, numbers
        if isinstance(segmenter, CompoundSegmenter) and len(parts) > 1:
            # A part such as `Haushalts` may be unknown in this form, so look up its known word, such as `Haushalt`.
            substitute = self._substitutes.known.get
            numbers = [known.get(part, substitute(segmenter.known_word(part), UNKNOWN_SYMBOL)) for part in parts]
            if UNKNOWN_SYMBOL not in numbers:
                return parts, numbers
        numbers = [*self._substitutes.find(word, before)] or [UNKNOWN_SYMBOL]
        # Only the first symbol has the word, so that it is displayed once.
        return (word, *[""] * (len(numbers) - 1)), numbers

    def _input_sentence(self, symbols: Sequence[_InputSymbol]) -> tuple[InputSentence, list[str]]:
        grammar = self.grammar
        extra_words: dict[str, int] = {}
        numbers, extra_first, target, target_start, passes = [], [0], [], [0], []

        def append_side(side: Words, passed_through: int) -> None:
            for word in side:
                number = grammar.target_numbers.get(word)
                if number is None:
                    number = len(grammar.target_words) + extra_words.setdefault(word, len(extra_words))
                target.append(number)
            target_start.append(len(target))
            passes.append(passed_through)

        for symbol in symbols:
            numbers.append(symbol.number)
            for side in symbol.given:
                append_side(side, 0)
            if not symbol.given and symbol.number not in grammar.standalone:
                append_side(symbol.passed, 1)
            extra_first.append(len(passes))
        arrays = [np.array(column, np.int32) for column in (numbers, extra_first, target, target_start, passes)]
        return InputSentence._make([*arrays, self._lm_words(list(extra_words))]), list(extra_words)

    def _decode_part(self, items: list[InputPhrase], best: int) -> DecodedPart:
        """Decode phrases at once. If the best translation is too short, the word weight is increased."""
        check_deadline()
        symbols = list(self._symbols(items))
        sentence, extra_words = self._input_sentence(symbols)
        symbol_words = [symbol.words for symbol in symbols]
        word_starts = [0, *accumulate(symbol.ended_words for symbol in symbols)]

        def decode_with_step(step: int) -> DecodedPart:
            limit = max(best, CANDIDATES)
            while True:
                outputs = self._decoder(step).decode(sentence, limit, distinct=True)
                part = DecodedPart(self.grammar, sentence, outputs, symbol_words, extra_words, word_starts)
                count = len(outputs.scores)
                # Different segmentations can form the same words.
                different = sorted({part.translations[k]: k for k in reversed(range(count))}.values())
                if len(different) >= best or count < limit:
                    return part.select_derivations(different) if len(different) < count else part
                limit *= 2

        part = decode_with_step(0)
        expected = _MIN_LENGTH_RATIO * self.grammar.length_ratio * sum(map(len, part.source_words()))
        error = expected - sum(map(len, part.translations[0]))
        for step in range(1, self._max_length_steps + 1) if error > 0 else ():
            longer = decode_with_step(step)
            missing = expected - sum(map(len, longer.translations[0]))
            if abs(missing) < error:
                part, error = longer, abs(missing)
            if missing <= 0:
                break
        return part

    def _candidates(self, part: DecodedPart) -> list[Candidate]:
        rows = zip(part.translations, part.outputs.scores.tolist(), part.outputs.features, strict=True)
        return [
            Candidate(words, score, {self.feature_names[f]: float(values[f]) for f in np.flatnonzero(values)}, (k,))
            for k, (words, score, values) in enumerate(rows)
        ]


def in_threads(translate: Callable[[str], Result], lines: Sequence[str], threads: int) -> Iterator[Result]:
    """Yield the translations of lines in order, computed in threads. If `threads` is 0, uses one per core."""
    return map_in_threads(lines, translate, threads or os.cpu_count() or 1, _QUEUED_PER_THREAD)


def best_combinations(lists: Sequence[Sequence[Candidate]], best: int) -> list[Candidate]:
    """Join a candidate of each list into up to `best` different texts: all first ones, then by score."""
    first = _join_candidates(candidates[0] for candidates in lists)
    if best == 1:
        return [first]
    joined: dict[Words, Candidate] = {(): _join_candidates(())}
    for candidates in lists:
        check_deadline()
        pairs = [(before, candidate) for before in joined.values() for candidate in candidates[:best]]
        joined = {}
        for pair in sorted(pairs, key=lambda pair: pair[0].score + pair[1].score, reverse=True):
            words = pair[0].words + pair[1].words
            if words not in joined:
                joined[words] = _join_candidates(pair)
            if len(joined) == best:
                break
    return [first, *(candidate for words, candidate in joined.items() if words != first.words)][:best]


def _join_candidates(candidates: Iterable[Candidate]) -> Candidate:
    words: list[str] = []
    features: dict[str, float] = {}
    score = 0.0
    derivations: list[int] = []
    for candidate in candidates:
        words += candidate.words
        derivations += candidate.derivations
        score += candidate.score
        for name, value in candidate.features.items():
            features[name] = features.get(name, 0.0) + value
    return Candidate(tuple(words), score, features, tuple(derivations))


def warm_up(loaded: "LoadedBatch", state: Any) -> None:
    """Compile or load the kernels for translating with a store's rules, using a small state."""
    # Imported here because translating does not need these modules.
    from hierogram.daemon.learning.kinds.pairs import ForestPairs
    from hierogram.samplers.counts.deltas import add_fragments, add_state, empty_deltas
    from hierogram.samplers.counts.occurrences import fragment_links, rule_links, uses_by_links
    from hierogram.samplers.counts.texts import link_texts
    from hierogram.samplers.forests.records import check_records, list_fragments
    from hierogram.samplers.grammar.columns import empty_blobs

    if isinstance(loaded, ForestPairs):
        # Compile the kernels that count the uses of rules by word links.
        batch, pairs = loaded.batch, np.arange(loaded.batch.size)
        records = loaded.write_averages(loaded.read_averages(empty_blobs(batch.size)))
        check_records(batch, records)
        fragments, state = list_fragments(records), loaded.decode(loaded.encode(state))
        deltas = add_fragments(add_state(empty_deltas(), batch, state, (1, 0, 0, 0), pairs), batch, fragments)
        found = [fragment_links(deltas, batch, fragments), rule_links(deltas, batch, state, pairs)]
        links, _ = uses_by_links(found, [np.ones(len(counted.entries), np.int64) for counted in found])
        link_texts(links)
        loaded.rules(deltas, links.entries)
    reader = RuleReader("rules to warm up with", "parquet", ("count",))
    for _ in reader.read([b"a [X,1]\tx [X,1]\t0-0\t\t\nb\ty\t0-0\t\t\n"]):
        pass
    grammar = pack_grammar(reader.table(np.ones((reader.rules, 1))), 2)
    model = ModelWithVocabulary(no_model(), GrowingVocabulary().finish())
    Translator(grammar, DEFAULT_WEIGHTS, model).translate("a b c")
