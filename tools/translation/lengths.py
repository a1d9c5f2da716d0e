"""Translations at least as long as those of the store's pairs: where nobody has tuned weights, that of words is fitted.

How much a target word has to be worth depends on the language model, on how well sentences are known, and on what a
word is: parts of words, in some languages. So a sentence whose translation is too short is decoded with higher weights
of words, until it is about as long as sentences of its length are in the store. One that is longer stays as it is: its
words are wanted by its rules, and to leave them out costs more than they do. This needs no text but the sentence, and
nothing before it changes it.

Letters and words count half each. By letters alone a translation that is made of short words, as one of little is, is
made so long that it has too many words.
"""

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from hierogram.daemon.text.segments import joined
from hierogram.samplers.decoding.chart import InputSentence
from hierogram.samplers.decoding.decoder import Decoded, Decoder
from hierogram.storage.records import PART_MARK
from hierogram.tools.translation.grammars import TextLengths, TranslationGrammar

STEP = 0.125
"""Between two weights of words that are tried."""
HIGHEST = 12
"""Steps that a weight may be above the one that is built in."""
STRIDE = 4
"""Steps from one weight to the next, until one is known by which a translation is too long."""
NARROWER = 4
"""A length is sought by this part of the pops."""
NEAR, SLACK = 0.05, 4.0
"""The share of its length that a translation may be too short, or too long where it was lengthened; so many letters are
always near enough."""


def text_lengths(grammar: TranslationGrammar) -> TextLengths | None:
    """Return how long the texts are that a grammar was learned from; None: not known.

    Where the grammar does not say it, they are those of the uses of its rules, which leave out what is not aligned.
    """
    if grammar.lengths.ratio:
        return grammar.lengths
    if "count" not in grammar.features or not grammar.packed.rules:
        return None
    rules = grammar.packed
    source, target, words = 0.0, 0.0, 0.0
    uses = np.exp(rules.features[:, grammar.features.index("count")])
    known, made, begun = (
        letters_of(grammar.source_words), letters_of(grammar.target_words), words_begun(grammar.target_words)
    )  # fmt: skip
    for rule in range(rules.rules):
        symbols = [symbol for symbol in rules.target_of(rule) if symbol >= 0]
        source += uses[rule] * sum(known[symbol] for symbol in rules.source_of(rule) if symbol >= 0)
        target += uses[rule] * made[symbols].sum()
        words += uses[rule] * begun[symbols].sum()
    return TextLengths(target / source, target / words) if source and words else None


def letters_of(words: Sequence[str]) -> NDArray[np.int64]:
    """Return the letters of each word, or part of a word, int64[len(words)]."""
    return np.array([len(joined(word)) for word in words], np.int64)


def words_begun(tokens: Sequence[str]) -> NDArray[np.int64]:
    """Return for each word, or part of a word, whether a word begins with it, int64[len(tokens)]."""
    return np.array([not token.startswith(PART_MARK) for token in tokens], np.int64)


class LengthFitter:
    """Decodes sentences to a length; may be used from several threads."""

    def __init__(
        self, decoder_of: Callable[[float, int], Decoder], target_words: Sequence[str], lengths: TextLengths
    ) -> None:
        """`decoder_of` makes a decoder whose weight of words is off by so much, and whose pops are divided by so many.

        `target_words` are those of the grammar by their numbers, `lengths` those of `text_lengths`.
        """
        self._decoder_of = decoder_of
        self._lengths = lengths
        self._known = self._of(target_words)
        self._decoders: dict[tuple[int, int], Decoder] = {}

    def decode(
        self,
        sentence: InputSentence,
        source: Sequence[str],
        own: Sequence[str],
        best: int = 1,
        *,
        distinct: bool = False,
    ) -> Decoded:
        """Return derivations by the weight of words that comes nearest to the length that is wanted, of a few.

        `source` are the sentence's words, `own` the target words that are none of the grammar's, by their numbers.
        """
        lengths = np.concatenate([self._known, self._of(own)])
        step = self._nearest(sentence, self._lengths.ratio * float(letters_of(source).sum()), lengths)
        return self._decoder(step, 1).decode(sentence, best, distinct=distinct)

    def _of(self, words: Sequence[str]) -> NDArray[np.float64]:
        """Return the length of each target word, or part of one: its letters, and those of a word where one begins."""
        found: NDArray[np.float64] = (letters_of(words) + self._lengths.word * words_begun(words)) / 2
        return found

    def _nearest(self, sentence: InputSentence, wanted: float, lengths: NDArray[np.float64]) -> int:
        """Return the step, the lowest or one above, whose best translation is long enough, by a narrower search."""
        low, high, step = 0, HIGHEST, 0
        nearest, off = 0, float("inf")
        shorter, longer = (0, 0.0), None
        while low <= high:
            found = self._decoder(step, NARROWER).decode(sentence).outputs
            length = float(lengths[found.words[found.word_start[0] : found.word_start[1]]].sum())
            if abs(length - wanted) < off:
                nearest, off = step, abs(length - wanted)
            if off <= max(SLACK, NEAR * wanted):
                break
            # The more a word weighs, the longer is what is found.
            if length < wanted:
                low, shorter, step = step + 1, (step, length), step + STRIDE
            else:
                # Where that is so from the beginning the search ends.
                high, longer = step - 1, (step, length)
            if longer is not None:
                (left, few), (right, many) = shorter, longer
                step = round(left + (right - left) * (wanted - few) / (many - few))
            step = min(max(step, low), high)
        return nearest

    def _decoder(self, step: int, narrower: int) -> Decoder:
        decoder = self._decoders.get((step, narrower))
        if decoder is None:
            decoder = self._decoders[step, narrower] = self._decoder_of(STEP * step, narrower)
        return decoder
