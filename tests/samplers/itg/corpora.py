"""Small corpora and chains for the ITG tests, for kernels and twins."""

from collections.abc import Iterable

import numpy as np
from tests.reference.itg.samplers import Corpus, Tree, from_string, lexical_base, to_string

from hierogram.samplers.itg.batch import BINARY_TYPES, ItgBatch, make_batch
from hierogram.samplers.itg.derivations import Derivations, empty_derivations
from hierogram.samplers.itg.model import ItgSettings, Model1
from hierogram.samplers.itg.sampler import ItgKernel, ItgState
from hierogram.tools.lab.baselines.itg import SLICE, build

STRENGTHS = (1.0, 0.4, 3.0, 1.7, 0.6)
"""Strengths of word pairs, nulls of both sides, P_f and P_e. All differ, so that a mix-up is noticed."""

Pairs = tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]


PHRASE_END = 0.6


def to_batch(pairs: Pairs, longest: int = 1) -> ItgBatch:
    """Return the pairs in the kernels' format, numbered from 0, with phrases of up to `longest` words."""
    sides = []
    for side in (0, 1):
        words = [word for pair in pairs for word in pair[side]]
        offsets = np.cumsum([0, *[len(pair[side]) for pair in pairs]], dtype=np.int64)
        sides += [np.array(words, np.int32), offsets]
    return make_batch(*sides, longest_phrase=longest)


def make_model1(batch: ItgBatch) -> Model1:
    """Return deterministic probabilities that differ between words."""
    source, target = batch.type_source.astype(float), batch.type_target.astype(float)
    return Model1(
        (1 + (source * 3 + target * 5) % 4) / 6,
        (1 + (source * 5 + target * 2) % 5) / 7,
        (1 + np.arange(batch.target_words) % 3) / 8,
        (1 + np.arange(batch.source_words) % 2) / 9,
    )


def make_kernel(
    pairs: Pairs,
    method: str = SLICE,
    shape: float = 0.15,
    strength: float = 1.0,
    of_long: float | None = None,
    longest: int = 1,
) -> ItgKernel:
    """Return a kernel with strengths fixed at `strength * STRENGTHS`.

    `of_long` is the slice shape of pairs whose chart needs more than 40 products.
    """
    batch = to_batch(pairs, longest)
    strengths = tuple(strength * one for one in STRENGTHS)
    settings = ItgSettings(
        shape, strengths, sampled_strengths=False, long_shape=of_long, short_chart=40, phrase_end=PHRASE_END
    )
    return build(batch, settings, method, make_model1(batch))


def to_corpus(pairs: Pairs, kernel: ItgKernel, state: ItgState) -> Corpus:
    """Return the corpus in the twin's format, with the base distributions of a state."""
    batch, base = kernel.batch, state.base
    types = {
        (int(f), int(e)): number for number, (f, e) in enumerate(zip(batch.type_source, batch.type_target, strict=True))
    }
    pair, source_null, target_null = base.strengths[:3].tolist()
    model1, longest = make_model1(batch), batch.phrases.longest
    both = (lambda f, e: float(model1.target[types[f, e]]), lambda f, e: float(model1.source[types[f, e]]))

    def base_phrase(f: tuple[int, ...], e: tuple[int, ...]) -> float:
        words = np.prod(base.source[list(f)]) * np.prod(base.target[list(e)])
        return lexical_base(f, e, both, PHRASE_END, longest) * float(words)

    return Corpus(
        pairs,
        lambda f, e: base_phrase((f,), (e,)),
        lambda f: float(base.lexical[BINARY_TYPES + f] * base.source[f]),
        lambda e: float(base.lexical[BINARY_TYPES + batch.source_words + e] * base.target[e]),
        (pair, source_null, target_null),
        base_phrase,
        longest,
    )


def to_derivations(batch: ItgBatch, trees: Iterable[Tree]) -> Derivations:
    derivations = empty_derivations(batch)
    for pair, tree in enumerate(trees):
        string = to_string(tree)
        first = int(derivations.offset[pair])
        derivations.rules[first : first + len(string)] = string
        derivations.length[pair] = len(string)
    return derivations


def to_trees(state: ItgState) -> tuple[Tree, ...]:
    found = []
    for pair, length in enumerate(state.derivations.length.tolist()):
        first = int(state.derivations.offset[pair])
        found.append(from_string(tuple(state.derivations.rules[first : first + length].tolist())))
    return tuple(found)
