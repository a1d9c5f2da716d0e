"""A small context-free grammar for the tests of charts, for kernels and for the enumeration."""

import numpy as np
from tests.reference.charts.sentences import Grammar

from hierogram.samplers.charts.chart import BINARY, LEXICAL, UNARY, make_grammar, sort_rules
from hierogram.samplers.charts.pruning.systems import SentenceSystem
from hierogram.samplers.charts.sentences import ChartSentence, make_sentence

GRAMMAR = Grammar(
    labels=3,
    symbols=4,
    binary=[
        (0, 0, 1, 0.2),
        (0, 1, 2, 0.25),
        (1, 2, 0, 0.15),
        (2, 1, 1, 0.3),
        (2, 3, 2, 0.2),
        (3, 1, 0, 1.0),
        (0, 0, 0, 0.1),
    ],
    lexical=[(0, 0, 0.3), (0, 1, 0.1), (1, 0, 0.2), (1, 1, 0.35), (2, 1, 0.4), (2, 0, 0.05)],
    unary=[(0, 1, 0.1), (0, 2, 0.15), (1, 2, 0.2)],
)
"""Labels 0 to 2, and 3, which is internal to a fragment."""


def sentence_of(words: list[int]) -> ChartSentence:
    """Return the sentence in the kernels' format, its root label 0."""
    grammar = make_grammar(
        GRAMMAR.labels,
        GRAMMAR.symbols,
        np.array(GRAMMAR.binary, BINARY),
        np.array(GRAMMAR.lexical, LEXICAL),
        np.array(GRAMMAR.unary, UNARY),
    )
    return make_sentence(sort_rules(grammar, 2), np.array(words, np.int32), 0)


def system_of(words: list[int], spans: np.ndarray) -> SentenceSystem:
    """Return a system that prunes the sentence with these spans."""
    return SentenceSystem(sentence_of(words), spans.reshape(-1, 2), (len(GRAMMAR.lexical), len(GRAMMAR.binary)))
