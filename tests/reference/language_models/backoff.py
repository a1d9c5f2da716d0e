"""Backoff n-gram models from the definition of ARPA files: dictionaries of tuples, no automaton."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from random import Random

NGram = tuple[int, ...]


@dataclass
class Model:
    """Log10 probabilities and backoff weights (0 if missing) of n-grams whose words are numbers."""

    log10: Mapping[NGram, float]
    backoff: Mapping[NGram, float]
    order: int

    def probability(self, history: Sequence[int], word: int) -> float:
        """Return the log10 probability of a word after a history of any length."""
        context = tuple(history[max(0, len(history) - self.order + 1) :])
        if (*context, word) in self.log10:
            return self.log10[*context, word]
        return self.backoff.get(context, 0) + self.probability(context[1:], word)

    def contexts(self) -> set[NGram]:
        """Return all contexts that can affect a next word: sequences inside n-grams without their last word."""
        return {gram[first:last] for gram in self.log10 for last in range(1, len(gram)) for first in range(last)}

    def state(self, history: Sequence[int]) -> NGram:
        """Return the longest suffix of a history that can affect a next word, or an empty tuple."""
        contexts = self.contexts()
        return next((tuple(history[k:]) for k in range(len(history)) if tuple(history[k:]) in contexts), ())

    def open_words(self, words: Sequence[int]) -> int:
        """Return the number of leading words whose probabilities can depend on words before the sequence."""
        for k in range(1, len(words) + 1):
            front = tuple(words[:k])
            if not any(len(context) > k and context[-k:] == front for context in self.contexts()):
                return k
        return len(words)


def random_model(random: Random, order: int, words: int, pruned: float = 0.0, children: float = 1.6) -> Model:
    """Return a random model in which each n-gram has up to `children` continuations on average.

    The prefix and suffix of each n-gram are also in the model. Then the share `pruned` of longer n-grams is removed.
    """
    level: list[NGram] = [(w,) for w in range(words)]
    kept = {gram: -random.uniform(0.5, 3) for gram in level}
    for _ in range(1, order):
        longer = []
        for gram in level:
            able = [w for w in range(words) if (*gram[1:], w) in kept]
            longer += [(*gram, w) for w in able if random.random() * len(able) < children]
        level = longer
        kept.update({gram: -random.uniform(0.1, 2) for gram in level})
    kept = {gram: p for gram, p in kept.items() if len(gram) == 1 or random.random() >= pruned}
    contexts = {gram[:-1] for gram in kept}
    backoff = {gram: -random.uniform(0, 1) for gram in kept if gram in contexts and len(gram) < order}
    return Model(kept, backoff, order)
