"""Small random grammars, sentences and n-gram models, in the reference's format and packed."""

import random
from itertools import product
from typing import NamedTuple

import numpy as np
from tests.reference.decoding.derivations import Model, NGrams, Rule, compute_scope

from hierogram.samplers.decoding.chart import InputSentence, SearchLimits
from hierogram.samplers.decoding.decoder import SentenceDecoder
from hierogram.samplers.decoding.grammar import (
    COUNTED_FEATURES,
    UNKNOWN_SYMBOL,
    PackedGrammar,
    RuleColumns,
    is_usable,
    pack,
)
from hierogram.samplers.language_models.building import ModelBuilder
from hierogram.samplers.language_models.model import LanguageModel
from hierogram.samplers.language_models.vocabulary import SPECIAL


class Example(NamedTuple):
    model: Model
    sentence: list[str]
    source_words: list[str]
    target_words: list[str]


def random_side(rng: random.Random, words: list[str], max_gaps: int) -> tuple:
    gaps = rng.randint(0, max_gaps)
    symbols: list[object] = [None] * gaps + [rng.choice(words) for _ in range(rng.randint(0, 2))]
    rng.shuffle(symbols)
    number = 0
    for k, symbol in enumerate(symbols):
        if symbol is None:
            number += 1
            symbols[k] = -number
    return tuple(symbols)


def matching_side(rng: random.Random, sentence: list[str]) -> tuple:
    """Return a part of the sentence in which some runs of words are replaced by nonterminals."""
    start = rng.randrange(len(sentence))
    end = rng.randint(start + 1, len(sentence))
    symbols: list[object] = []
    gaps, at = 0, start
    while at < end:
        if rng.random() < 0.6 or sentence[at] == "odd":
            gaps += 1
            symbols.append(-gaps)
            at = rng.randint(at + 1, min(end, at + 3))
        else:
            symbols.append(sentence[at])
            at += 1
    return tuple(symbols)


def random_target(rng: random.Random, source: tuple, words: list[str]) -> tuple:
    """Return a random target side, sometimes empty."""
    symbols: list[object] = [s for s in source if isinstance(s, int)]
    symbols += [rng.choice(words) for _ in range(rng.choice((0, 1, 1, 2, 3)))]
    rng.shuffle(symbols)
    return tuple(symbols)


def random_ngrams(rng: random.Random, words: list[str], order: int) -> NGrams:
    """Return random n-grams of each order with their prefixes and suffixes. Values are rounded to float32."""

    def value() -> float:
        return float(np.float32(-rng.uniform(0.05, 2.5)))

    ngrams: NGrams = {(word,): (value(), value() if word not in SPECIAL[2:] else 0.0) for word in (*SPECIAL, *words)}
    for n in range(2, order + 1):
        for gram in product(("<s>", *words), *([words] * (n - 2)), (*words, "</s>")):
            if gram[:-1] in ngrams and gram[1:] in ngrams and rng.random() < 0.5:
                ngrams[gram] = (value(), value() if n < order and gram[-1] != "</s>" else 0.0)
    return ngrams


def random_example(rng: random.Random, *, with_model: bool = True) -> Example:
    source_words, target_words = ["a", "b"], ["x", "y", "z"]
    rules: dict[tuple, Rule] = {}
    sentence = [rng.choice([*source_words * 3, "odd"]) for _ in range(rng.randint(1, 6))]
    for _ in range(rng.randint(4, 10)):
        source = random_side(rng, source_words, rng.choice((0, 0, 0, 1, 2, 3)))
        if rng.random() < 0.7:
            source = matching_side(rng, sentence)
        if len(source) == 0 or source == (-1,) or compute_scope(source) > 5:
            continue
        target = random_target(rng, source, [*target_words, "new"])
        features = rng.gauss(0, 1), rng.gauss(0, 1)
        rules.setdefault((source, target), Rule(source, target, features))
    names: list[object] = [0, 1, *COUNTED_FEATURES]
    weights = {name: rng.gauss(0, 1) for name in names}
    order = rng.randint(1, 4)
    ngrams = random_ngrams(rng, [*target_words, "odd"], order) if with_model else None
    model = Model(list(rules.values()), weights, ngrams, order, rng.choice((2, 3, 10)))
    return Example(model, sentence, source_words, [*target_words, "new"])


def flat(sides: list[tuple], words: list[str]) -> tuple[np.ndarray, np.ndarray]:
    symbols = [words.index(s) if isinstance(s, str) else s for side in sides for s in side]
    return np.array(symbols, np.int32), np.cumsum([0, *map(len, sides)], dtype=np.int64)


def to_columns(rules: list[tuple], source_words: list[str], target_words: list[str]) -> RuleColumns:
    """Return rules (source side, target side[, features]) as columns. Rule k has the link (k % 7, 1)."""
    features = [rule[2] if len(rule) > 2 else (float(k), -1.0) for k, rule in enumerate(rules)]
    return RuleColumns(
        *flat([rule[0] for rule in rules], source_words),
        *flat([rule[1] for rule in rules], target_words),
        np.array([(k % 7, 1) for k in range(len(rules))], np.uint16).reshape(-1, 2),
        np.arange(len(rules) + 1, dtype=np.int64),
        np.array(features, np.float64).reshape(len(rules), 2),
    )


def packed(example: Example) -> PackedGrammar:
    columns = to_columns(list(example.model.rules), example.source_words, example.target_words)
    return pack(columns, is_usable(columns))


def ngram_model(example: Example) -> tuple[LanguageModel, dict[str, int]]:
    """Return the packed model, and the numbers of its words."""
    ngrams, order = example.model.ngrams, example.model.order
    assert ngrams is not None
    vocabulary = [*SPECIAL, *(gram[0] for gram in ngrams if len(gram) == 1 and gram[0] not in SPECIAL)]
    numbers = {word: k for k, word in enumerate(vocabulary)}

    def columns(grams: list[tuple[str, ...]]) -> tuple[np.ndarray, np.ndarray]:
        values = np.array([ngrams[gram] for gram in grams], np.float32).reshape(len(grams), 2)
        return np.ascontiguousarray(values[:, 0]), np.ascontiguousarray(values[:, 1])

    builder = ModelBuilder(order, *columns([(word,) for word in vocabulary]))
    for n in range(2, order + 1):
        grams = [gram for gram in ngrams if len(gram) == n]
        if grams:
            words = np.array([[numbers[word] for word in gram] for gram in grams], np.int32)
            assert builder.add(words, *columns(grams)) is None
    return builder.finish(), numbers


def make_decoder(example: Example, pops: int = 0) -> SentenceDecoder:
    weights = np.array([example.model.weights[name] for name in (0, 1, *COUNTED_FEATURES)])
    limits = SearchLimits(example.model.span, pops)
    if example.model.ngrams is None:
        return SentenceDecoder(packed(example), weights, np.zeros(len(example.target_words), np.int32), None, limits)
    model, numbers = ngram_model(example)
    lm_words = np.array([numbers.get(word, 0) for word in example.target_words], np.int32)
    return SentenceDecoder(packed(example), weights, lm_words, model, limits)


def to_sentence(example: Example) -> tuple[InputSentence, list[str]]:
    """Return the sentence and all target words. Words that no rule translates alone have a pass-through rule."""
    numbers = {} if example.model.ngrams is None else ngram_model(example)[1]
    alone = {rule.source[0] for rule in example.model.rules if len(rule.source) == 1}
    own = sorted({word for word in example.sentence if word not in alone})
    words = [*example.target_words, *own]
    extras = [[len(example.target_words) + own.index(word)] if word in own else [] for word in example.sentence]
    target = [word for extra in extras for word in extra]
    first = np.cumsum([0, *map(len, extras)], dtype=np.int32)
    known = {word: k for k, word in enumerate(example.source_words)}
    return InputSentence(
        np.array([known.get(word, UNKNOWN_SYMBOL) for word in example.sentence], np.int32),
        first,
        np.array(target, np.int32),
        np.arange(len(target) + 1, dtype=np.int32),
        np.ones(len(target), np.int32),
        np.array([numbers.get(word, 0) for word in own], np.int32),
    ), words
