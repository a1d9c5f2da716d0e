"""Minimum Bayes risk decoding: the translation that is most similar to other probable translations.

The chosen translation has the least expected loss [Kumar & Byrne 2004]. The loss is 1 − chrF++ [Popović 2017] with
β = 1, because a larger β would prefer long translations. The most probable translation often ranks first only
because of a few poorly estimated words.
"""

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

CANDIDATES = 50
"""Maximum number of most probable translations to compare and choose from."""
_LETTERS, _WORDS = 6, 2
"""Maximum n-gram lengths of chrF++: letters and words."""


def choose_consensus(texts: Sequence[Sequence[str]], scores: NDArray[np.float64]) -> int:
    """Return the index of the text with the highest expected chrF++, the first if several are equal.

    `scores` float64[k] are log-likelihoods up to a constant, highest first. Only the first `CANDIDATES` texts count.
    """
    return index_most_similar(pairwise_chrf(texts[:CANDIDATES]), scores[:CANDIDATES])


def index_most_similar(similarity: NDArray[np.float64], scores: NDArray[np.float64]) -> int:
    """Return the index of the text with the highest expected similarity.

    `similarity` is float64[k, k], and `scores` are log-likelihoods float64[k].
    """
    return int(np.argmax(similarity @ np.exp(scores - scores.max())))


def pairwise_chrf(texts: Sequence[Sequence[str]]) -> NDArray[np.float64]:
    """Return chrF++ with β = 1 (0 to 1) of each pair of texts, float64[text, text]."""
    precision, shared_lengths = np.zeros((2, len(texts), len(texts)))
    letters = [[ord(letter) for word in text for letter in word] for text in texts]
    numbers: dict[str, int] = {}
    words = [[numbers.setdefault(word, len(numbers)) for word in text] for text in texts]
    for units, longest in ((letters, _LETTERS), (words, _WORDS)):
        for counts in _ngram_counts(units, longest):
            totals = counts.sum(axis=1)
            precision += _shared_counts(counts) / np.maximum(totals, 1)[:, None]
            shared_lengths += np.minimum.outer(totals, totals) > 0
    # The transpose is the recall, since the recall of a text is the precision of the other text.
    total = (precision + precision.T) * np.maximum(shared_lengths, 1)
    return 2 * precision * precision.T / np.where(total, total, 1)


def _ngram_counts(texts: Sequence[Sequence[int]], longest: int) -> Iterator[NDArray[np.int64]]:
    """Yield the n-gram counts of all texts, int64[texts, n-grams], for each length up to `longest`."""
    _, units = np.unique(np.array([unit for text in texts for unit in text], np.int64), return_inverse=True)
    text_numbers = np.repeat(np.arange(len(texts)), [len(text) for text in texts])
    different = int(units.max(initial=0)) + 1
    ngrams, starts = units, np.arange(len(units))
    for length in range(1, longest + 1):
        if length > 1:
            # Extend each n-gram by the next unit, unless the text ends.
            ends = starts + length - 1
            inside = ends < len(units)
            inside[inside] = text_numbers[ends[inside]] == text_numbers[starts[inside]]
            starts = starts[inside]
            extended = ngrams[inside] * different + units[ends[inside]]
            _, ngrams = np.unique(extended, return_inverse=True)
        shape = len(texts), int(ngrams.max(initial=0)) + 1
        counts = np.bincount(text_numbers[starts] * shape[1] + ngrams, minlength=shape[0] * shape[1])
        yield counts.reshape(shape)


def _shared_counts(counts: NDArray[np.int64]) -> NDArray[np.float32]:
    """Return the number of shared n-grams Σ min(count, other count), float32[text, text]."""
    shared = np.zeros((len(counts), len(counts)), np.float32)
    least = 1
    while counts.size:
        # Sum over k the number of n-grams that both texts contain at least k times, which is a fast matrix product.
        present = (counts >= least).astype(np.float32)
        shared += present @ present.T
        least += 1
        counts = counts[:, (counts >= least).any(axis=0)]
    return shared
