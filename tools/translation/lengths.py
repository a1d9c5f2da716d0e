"""Length fitting: with untuned weights, the weight of words is chosen for each sentence to match the store's lengths.

The best weight of target words depends on the language model, on how well a sentence is covered, and on whether tokens
are words or parts of words. If a translation is too short, the sentence is decoded with higher weights of words until
its length matches the store's length ratio. A longer translation is not shortened: its rules require its words, and
omitting them costs more. The fit depends on the sentence alone.

The length is the mean of letters and words. By letters alone, a translation into short words, common with little
training data, would get too many words.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.decoding.chart import InputSentence
from hierogram.samplers.decoding.decoder import Decoded, SentenceDecoder
from hierogram.storage.records import is_part, join_parts
from hierogram.tools.translation.grammars import TextLengths, TranslationGrammar

STEP = 0.125
"""Step between the word weights that are tried."""
HIGHEST = 12
"""Maximum number of steps above the default weight."""
STRIDE = 4
"""Steps to the next weight until a translation is too long."""
NARROWER = 4
"""Divisor of the pop limit during the length search."""
NEAR, SLACK = 0.05, 4.0
"""Accepted deviation from the wanted length: a share of it, or this number of letters if that is more."""


def text_lengths(grammar: TranslationGrammar) -> TextLengths | None:
    """Return the lengths of the texts that a grammar was learned from, or None if they are unknown.

    If the grammar does not contain them, they are estimated from the uses of its rules, without unaligned words.
    """
    if grammar.lengths.ratio:
        return grammar.lengths
    if "count" not in grammar.features or not grammar.packed.rules:
        return None
    rules = grammar.packed
    source, target, words = 0.0, 0.0, 0.0
    uses = np.exp(rules.features[:, grammar.features.index("count")])
    known_lengths, made, words_of = (
        count_letters(grammar.source_words), count_letters(grammar.target_words), mark_words(grammar.target_words)
    )  # fmt: skip
    for rule in range(rules.rules):
        symbols = [symbol for symbol in rules.target_of(rule) if symbol >= 0]
        source += uses[rule] * sum(known_lengths[symbol] for symbol in rules.source_of(rule) if symbol >= 0)
        target += uses[rule] * made[symbols].sum()
        words += uses[rule] * words_of[symbols].sum()
    return TextLengths(target / source, target / words) if source and words else None


def count_letters(words: Sequence[str]) -> NDArray[np.int64]:
    """Return the number of letters of each word or word part, int64[len(words)]."""
    return np.array([len(join_parts(word)) for word in words], np.int64)


def mark_words(tokens: Sequence[str]) -> NDArray[np.int64]:
    """Return 1 for each word, represented by its only unmarked part, and 0 for other parts, int64[len(tokens)]."""
    return np.array([not is_part(token) for token in tokens], np.int64)


class LengthFitter:
    """Decoder that fits the length of translations. Thread-safe."""

    def __init__(
        self, decoder_of: Callable[[float, int], SentenceDecoder], target_words: Sequence[str], lengths: TextLengths
    ) -> None:
        """Compute the lengths of the known target words.

        `decoder_of` makes a decoder, given the increase of its weight of words and the divisor of its pops.
        `target_words` is the grammar's target vocabulary, `lengths` the result of `text_lengths`.
        """
        self._decoder_of = decoder_of
        self._lengths = lengths
        self._known = self._of(target_words)
        self._decoders: dict[tuple[int, int], SentenceDecoder] = {}

    def decode(
        self,
        sentence: InputSentence,
        source: Sequence[str],
        input_words: Sequence[str],
        best: int = 1,
        *,
        distinct: bool = False,
    ) -> Decoded:
        """Return derivations under the tried weight of words whose length is nearest to the wanted length.

        `source` are the sentence's words. `input_words` are the target words outside the grammar's vocabulary, by
        number.
        """
        lengths = np.concatenate([self._known, self._of(input_words)])
        step = self._nearest(sentence, self._lengths.ratio * float(count_letters(source).sum()), lengths)
        return self._decoder(step, 1).decode(sentence, best, distinct=distinct)

    def _of(self, words: Sequence[str]) -> NDArray[np.float64]:
        """Return the length of each token: half its letters, plus half an average word if it counts as a word."""
        lengths: NDArray[np.float64] = (count_letters(words) + self._lengths.word * mark_words(words)) / 2
        return lengths

    def _nearest(self, sentence: InputSentence, target: float, lengths: NDArray[np.float64]) -> int:
        """Return the step whose best translation is nearest to the wanted length, found with fewer pops."""
        low, high, step = 0, HIGHEST, 0
        nearest, off = 0, float("inf")
        shorter, longer = (0, 0.0), None
        while low <= high:
            candidates = self._decoder(step, NARROWER).decode(sentence).outputs
            length = float(lengths[candidates.words[candidates.word_start[0] : candidates.word_start[1]]].sum())
            if abs(length - target) < off:
                nearest, off = step, abs(length - target)
            if off <= max(SLACK, NEAR * target):
                break
            # The length of the best translation increases with the weight of words.
            if length < target:
                low, shorter, step = step + 1, (step, length), step + STRIDE
            else:
                # The search ends here if the first translation is too long.
                high, longer = step - 1, (step, length)
            if longer is not None:
                (low_weight, few), (high_weight, many) = shorter, longer
                step = round(low_weight + (high_weight - low_weight) * (target - few) / (many - few))
            step = min(max(step, low), high)
        return nearest

    def _decoder(self, step: int, narrower: int) -> SentenceDecoder:
        decoder = self._decoders.get((step, narrower))
        if decoder is None:
            decoder = self._decoders[step, narrower] = self._decoder_of(STEP * step, narrower)
        return decoder
