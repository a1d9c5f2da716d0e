"""Translating sentences with a grammar, weights and a language model."""

import os
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from hierogram.daemon.corpora.texts import AS_IT_IS, TextPipeline
from hierogram.daemon.decoding.fixed_words import Glossary, SentencePart, Words, marked_parts, split_words
from hierogram.daemon.decoding.grammars import TranslationGrammar
from hierogram.daemon.decoding.weights import weight_vector
from hierogram.daemon.language_models.arpa import NamedModel
from hierogram.samplers.decoding.chart import GLUE_NEXT, GLUE_START, GOAL, InputSentence, Limits, span_of
from hierogram.samplers.decoding.decoder import POPS, SPAN, Decoded, Decoder
from hierogram.samplers.decoding.grammar import COUNTED, UNKNOWN_SYMBOL
from hierogram.samplers.grammar.rules import RuleUse, Span, Symbol, render_side


class _Use(NamedTuple):
    """A rule where it is used: its number, half-open spans of positions and of target words, what fills its gaps."""

    rule: int
    source: Span
    target: Span
    children: "list[_Use]"


@dataclass(frozen=True)
class Piece:
    """A part of a sentence: its derivations, the source words of each of its positions, its own target words."""

    grammar: TranslationGrammar
    decoded: Decoded
    positions: list[Words]
    own: list[str]

    @property
    def source_words(self) -> int:
        """Return how many source words it has."""
        return sum(map(len, self.positions))

    def target_words(self, number: int) -> int:
        """Return how many target words a derivation has."""
        starts = self.decoded.outputs.word_start
        return int(starts[number + 1] - starts[number])

    def word(self, number: int) -> str:
        """Return a target word, one of the grammar's or the sentence's own."""
        known = len(self.grammar.target_words)
        return self.grammar.target_words[number] if number < known else self.own[number - known]

    def starts(self) -> list[int]:
        """Return where the source words of each position begin, and where the last ones end."""
        starts = [0]
        for words in self.positions:
            starts.append(starts[-1] + len(words))
        return starts

    def sides(self, use: _Use) -> tuple[tuple[Symbol, ...], tuple[Symbol, ...]]:
        """Return the sides of a rule that is used, nonterminals as 1, 2, …"""
        rules = self.grammar.packed.rules
        if use.rule == GLUE_NEXT:
            return (1, 2), (1, 2)
        if use.rule >= rules:
            sentence, extra = self.decoded.sentence, use.rule - rules
            target = sentence.target[sentence.target_start[extra] : sentence.target_start[extra + 1]].tolist()
            return self.positions[use.source[0]], tuple(map(self.word, target))
        source, target = self.grammar.packed.source_of(use.rule), self.grammar.packed.target_of(use.rule)
        words = self.grammar.source_words
        return (
            tuple(-symbol if symbol < 0 else words[symbol] for symbol in source),
            tuple(-symbol if symbol < 0 else self.word(symbol) for symbol in target),
        )

    def tree(self, number: int) -> _Use:
        """Return the root of a derivation; the rules that begin and end a sentence are left out."""
        out = self.decoded.outputs
        uses = out.uses[out.use_start[number] : out.use_start[number + 1]]
        # What stands in a use comes after it.
        below: dict[int, dict[int, int]] = {}
        for k, parent in enumerate(uses["parent"].tolist()):
            below.setdefault(parent, {})[int(uses["slot"][k])] = k
        words = len(self.decoded.sentence.words)
        nodes: dict[int, _Use] = {}
        for k in reversed(range(len(uses))):
            children = [nodes[child] for _, child in sorted(below.get(k, {}).items())]
            rule = int(uses["rule"][k])
            if rule in (GOAL, GLUE_START):
                nodes[k] = children[0]
            else:
                target = (int(uses["first"][k]), int(uses["last"][k]))
                nodes[k] = _Use(rule, span_of(words, int(uses["cell"][k])), target, children)
        return nodes[0]


def _preorder(root: _Use) -> Iterator[_Use]:
    waiting = [root]
    while waiting:
        use = waiting.pop()
        yield use
        waiting += reversed(use.children)


def uses_of(piece: Piece, number: int) -> list[RuleUse]:
    """Return the rules of a derivation, top-down in source order; spans are of words."""
    uses = list(_preorder(piece.tree(number)))
    numbers = {id(use): k for k, use in enumerate(uses)}
    starts = piece.starts()
    found = []
    for use in uses:
        source, target = piece.sides(use)
        span = (starts[use.source[0]], starts[use.source[1]])
        children = tuple(numbers[id(child)] for child in use.children)
        found.append(RuleUse(render_side(source), render_side(target), span, use.target, children))
    return found


def links_of(piece: Piece, number: int) -> list[Span]:
    """Linked positions of source and target words of a derivation, in order.

    Words with a given translation are all linked with all its words.
    """
    starts = piece.starts()
    found: set[Span] = set()
    for use in _preorder(piece.tree(number)):
        if use.rule >= piece.grammar.packed.rules:
            sources = range(starts[use.source[0]], starts[use.source[1]])
            found |= {(i, j) for i in sources for j in range(*use.target)}
        elif use.rule >= 0:
            source, target = piece.sides(use)
            at = [starts[place] for place in _places(source, use.source[0], [child.source for child in use.children])]
            to = _places(target, use.target[0], [child.target for child in use.children])
            found |= {(at[i], to[j]) for i, j in piece.grammar.packed.links_of(use.rule)}
    return sorted(found)


def _places(side: tuple[Symbol, ...], start: int, spans: list[Span]) -> list[int]:
    """Return where each symbol of a side begins."""
    places = []
    for symbol in side:
        places.append(start)
        start = start + 1 if isinstance(symbol, str) else start + spans[symbol - 1][1] - spans[symbol - 1][0]
    return places


MAX_WORDS = 100
"""Words of a sentence that is translated at once, unless said otherwise."""
_LOOK_BACK = 3
"""A sentence is divided behind a punctuation mark, if one stands in the last third."""
_AHEAD = 4


@dataclass(frozen=True, slots=True)
class Candidate:
    """One translation: words, the score w · f, the features that are not 0."""

    words: Words
    score: float
    features: dict[str, float]

    @property
    def text(self) -> str:
        """The words, separated by spaces."""
        return " ".join(self.words)


class Translation:
    """The translations of a sentence, best first: at least one, none of an empty line.

    `parts` says in how many parts it was translated, as it has too many words for one.
    """

    def __init__(self, source: Words, candidates: list[Candidate], pieces: list[Piece]) -> None:
        self.source = source
        self.candidates = candidates
        self._pieces = pieces

    @property
    def parts(self) -> int:
        """In how many parts the sentence was translated."""
        return len(self._pieces)

    @property
    def text(self) -> str:
        """The best translation; empty where there are no words."""
        return self.candidates[0].text if self.candidates else ""

    def alignment(self, number: int = 0) -> list[tuple[int, int]]:
        """Linked positions of source and target words of a candidate."""
        found: list[tuple[int, int]] = []
        source = target = 0
        for piece in self._pieces:
            found += [(source + i, target + j) for i, j in links_of(piece, number)]
            source += piece.source_words
            target += piece.target_words(number)
        return found

    def derivation(self, number: int = 0) -> list[RuleUse]:
        """Return the rules of a candidate's derivation, top-down in source order.

        Of several parts, one after the other.
        """
        found: list[RuleUse] = []
        source = target = 0
        for piece in self._pieces:
            uses = uses_of(piece, number)
            moved = len(found)
            found += [
                RuleUse(
                    use.source,
                    use.target,
                    (use.source_span[0] + source, use.source_span[1] + source),
                    (use.target_span[0] + target, use.target_span[1] + target),
                    tuple(child + moved for child in use.children),
                )
                for use in uses
            ]
            source += piece.source_words
            target += piece.target_words(number)
        return found


class Translator:
    """Translates sentences; may be used from several threads at once."""

    def __init__(
        self,
        grammar: TranslationGrammar,
        weights: Mapping[str, float],
        model: NamedModel | None = None,
        *,
        span: int = SPAN,
        pops: int = POPS,
        max_words: int = MAX_WORDS,
        glossary: Glossary | None = None,
        texts: TextPipeline = AS_IT_IS,
    ) -> None:
        """`span` bounds the words that a rule covers, `pops` those of a cell (0: no bound, the search is exact).

        Lines go through `texts`; the words of the glossary have been through it.
        """
        self.grammar = grammar
        self.names = (*grammar.features, *COUNTED)
        self._model = model
        self._max_words = max_words
        self._glossary = glossary or Glossary()
        self.texts = texts
        if model is None:
            lm_words = np.zeros(len(grammar.target_words), np.int32)
        else:
            lm_words = model.vocabulary.numbers(grammar.target_words)
        self._decoder = Decoder(
            grammar.packed,
            weight_vector(grammar.features, weights),
            lm_words,
            None if model is None else model.model,
            Limits(span, pops),
        )

    def translate(
        self,
        line: str,
        best: int = 1,
        *,
        markup: bool = False,
        distinct: bool = False,
        texts: TextPipeline | None = None,
    ) -> Translation:
        """Translate a line; returns at most `best`, only one of a sentence that is translated in parts.

        `distinct`: no two of them have the same words. `texts` takes the place of the translator's own pipeline:
        `AS_IT_IS` where the line is tokens already.
        """
        texts = self.texts if texts is None else texts
        if markup:
            parts = marked_parts(line, texts)
        else:
            parts = [SentencePart(words)] if (words := split_words(texts.source.tokens(line))) else []
        source = tuple(word for part in parts for word in part.words)
        divided = list(self._glossary.divided(parts))
        pieces = [self._decode(piece, best, distinct) for piece in self._divided(divided)]
        if not pieces:
            return Translation(source, [], [])
        if len(pieces) == 1:
            return Translation(source, self._candidates(pieces[0]), pieces)
        firsts = [self._candidates(piece)[0] for piece in pieces]
        features: dict[str, float] = {}
        for first in firsts:
            for name, value in first.features.items():
                features[name] = features.get(name, 0.0) + value
        words = tuple(word for first in firsts for word in first.words)
        return Translation(source, [Candidate(words, sum(first.score for first in firsts), features)], pieces)

    def translate_all(
        self, lines: Sequence[str], best: int = 1, *, markup: bool = False, distinct: bool = False, threads: int = 0
    ) -> Iterator[Translation]:
        """Yield the translations of lines, in order, the same on any number of threads (0: one for each core)."""
        threads = threads or os.cpu_count() or 1
        ahead = _AHEAD * threads
        with ThreadPoolExecutor(threads, thread_name_prefix="translate") as pool:
            translate = partial(self.translate, best=best, markup=markup, distinct=distinct)
            going = [pool.submit(translate, line) for line in lines[:ahead]]
            for number in range(len(lines)):
                done = going.pop(0).result()
                if number + ahead < len(lines):
                    going.append(pool.submit(translate, lines[number + ahead]))
                yield done

    def _divided(self, parts: list[SentencePart]) -> Iterator[list[SentencePart]]:
        """Yield positions to decode at once: single words, and parts with a given translation."""
        positions: list[SentencePart] = []
        for part in parts:
            positions += [part] if part.given else [SentencePart((word,)) for word in part.words]
        while len(positions) > self._max_words:
            cut = self._max_words
            for place in range(cut, cut - cut // _LOOK_BACK, -1):
                last = positions[place - 1]
                if not last.given and not any(letter.isalnum() for letter in last.words[0]):
                    cut = place
                    break
            yield positions[:cut]
            positions = positions[cut:]
        if positions:
            yield positions

    def _decode(self, positions: list[SentencePart], best: int, distinct: bool) -> Piece:
        sentence, own = self._sentence(positions)
        decoded = self._decoder.decode(sentence, best, distinct=distinct)
        return Piece(self.grammar, decoded, [position.words for position in positions], own)

    def _sentence(self, positions: list[SentencePart]) -> tuple[InputSentence, list[str]]:
        grammar = self.grammar
        own: dict[str, int] = {}
        words, first, target, target_start, passes = [], [0], [], [0], []

        def bring(side: Words, passed: int) -> None:
            for word in side:
                number = grammar.target_numbers.get(word)
                target.append(len(grammar.target_words) + own.setdefault(word, len(own)) if number is None else number)
            target_start.append(len(target))
            passes.append(passed)

        for position in positions:
            word = position.words[0]
            number = UNKNOWN_SYMBOL if position.given else grammar.source_numbers.get(word, UNKNOWN_SYMBOL)
            words.append(number)
            for side in position.given:
                bring(side, 0)
            if not position.given and not grammar.translates(number):
                bring((word,), 1)
            first.append(len(passes))
        lm_words = np.zeros(len(own), np.int32) if self._model is None else self._model.vocabulary.numbers(list(own))
        sentence = InputSentence(
            np.array(words, np.int32),
            np.array(first, np.int32),
            np.array(target, np.int32),
            np.array(target_start, np.int32),
            np.array(passes, np.int32),
            lm_words,
        )
        return sentence, list(own)

    def _candidates(self, piece: Piece) -> list[Candidate]:
        out = piece.decoded.outputs
        found = []
        for k, score in enumerate(out.scores.tolist()):
            numbers = out.words[out.word_start[k] : out.word_start[k + 1]].tolist()
            features = out.features[k].tolist()
            found.append(
                Candidate(
                    tuple(map(piece.word, numbers)),
                    score,
                    {name: value for name, value in zip(self.names, features, strict=True) if value},
                )
            )
        return found


def as_plain(translation: Translation) -> dict[str, Any]:
    """Return a sentence with its translations, best first, and of each its score, features, links and rules."""
    return {
        "source": " ".join(translation.source),
        "translation": translation.text,
        "parts": translation.parts,
        "candidates": [
            {
                "translation": candidate.text,
                "score": candidate.score,
                "features": candidate.features,
                "alignment": translation.alignment(number),
                "derivation": [asdict(use) for use in translation.derivation(number)],
            }
            for number, candidate in enumerate(translation.candidates)
        ],
    }
