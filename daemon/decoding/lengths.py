"""Translations as long as those of the store's pairs: where nobody has tuned weights, that of words is fitted.

How much a target word has to be worth depends on the language model, on how well sentences are known, and on what a
word is: parts of words, in some languages. So each sentence is decoded with several weights of words, until it is about
as long as sentences of its length are in the store. This needs no text but the sentence, and nothing before it changes
it.
"""

from collections.abc import Callable

import numpy as np

from hierogram.daemon.decoding.grammars import TranslationGrammar
from hierogram.samplers.decoding.chart import InputSentence
from hierogram.samplers.decoding.decoder import Decoded, Decoder

STEP = 0.125
"""Between two weights of words that are tried."""
LOWEST, HIGHEST = -8, 12
"""Steps that a weight may be off the one that is built in."""
STRIDE = 4
"""Steps from one weight to the next, until both a lighter and a heavier one are known."""
NARROWER = 4
"""A length is sought by this part of the pops."""
NEAR = 0.05
"""The share of its words that a translation may have too many or too few; one word is always near enough."""


def words_ratio(grammar: TranslationGrammar) -> float | None:
    """Return the target words of the pairs that rules were learned from by their source words; None: not known.

    Where the grammar does not say it, it is that of the uses of its rules, which leave out what is not aligned.
    """
    if grammar.length_ratio:
        return grammar.length_ratio
    names = ("count", "source_words", "target_words")
    if not {*names} <= {*grammar.features} or not grammar.packed.rules:
        return None
    count, source, target = (grammar.packed.features[:, grammar.features.index(name)] for name in names)
    uses = np.exp(count)
    words = float(uses @ source)
    return float(uses @ target) / words if words else None


class LengthFitter:
    """Decodes sentences to a length; may be used from several threads."""

    def __init__(self, decoder_of: Callable[[float, int], Decoder], ratio: float) -> None:
        """`decoder_of` makes a decoder whose weight of words is off by so much, and whose pops are divided by so many.

        `ratio` is that of `words_ratio`.
        """
        self._decoder_of = decoder_of
        self._ratio = ratio
        self._decoders: dict[tuple[int, int], Decoder] = {}

    def decode(self, sentence: InputSentence, best: int = 1, *, distinct: bool = False) -> Decoded:
        """Return derivations by the weight of words that comes nearest to the length that is wanted, of a few."""
        step = self._nearest(sentence, self._ratio * len(sentence.words))
        return self._decoder(step, 1).decode(sentence, best, distinct=distinct)

    def _nearest(self, sentence: InputSentence, wanted: float) -> int:
        """Return the step whose best translation has about as many words as are wanted, by a narrower search."""
        low, high, step = LOWEST, HIGHEST, 0
        nearest, off = 0, float("inf")
        shorter: tuple[int, int] | None = None
        longer: tuple[int, int] | None = None
        while low <= high:
            found = self._decoder(step, NARROWER).decode(sentence).outputs
            length = int(found.word_start[1] - found.word_start[0])
            if abs(length - wanted) < off:
                nearest, off = step, abs(length - wanted)
            if off <= max(1.0, NEAR * wanted):
                break
            # The more a word weighs, the longer is what is found.
            if length < wanted:
                low, shorter, step = step + 1, (step, length), step + STRIDE
            else:
                high, longer, step = step - 1, (step, length), step - STRIDE
            if shorter and longer:
                (left, few), (right, many) = shorter, longer
                step = round(left + (right - left) * (wanted - few) / (many - few))
            step = min(max(step, low), high)
        return nearest

    def _decoder(self, step: int, narrower: int) -> Decoder:
        decoder = self._decoders.get((step, narrower))
        if decoder is None:
            decoder = self._decoders[step, narrower] = self._decoder_of(STEP * step, narrower)
        return decoder
