"""Decoder: the best derivations of sentences under a weighted grammar."""

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.decoding.chart import DecodingChart, DecodingTask, InputSentence, SearchLimits, make_chart
from hierogram.samplers.decoding.filling import fill
from hierogram.samplers.decoding.grammar import PackedGrammar, WeightedGrammar, no_model, weigh
from hierogram.samplers.decoding.kbest import Outputs, best_entries, write_out
from hierogram.samplers.language_models.model import LanguageModel

_SMALLEST, _WORDS = 1 << 12, 30
"""Number of items, and number of words, for which the smallest chart has room."""
SPAN = 20
"""Default maximum number of words that a grammar rule may span."""
POPS = 200
"""Default beam size: maximum number of candidates kept per cell."""


class SentenceDecoder:
    """Decoder with a grammar, its weights and a language model. Thread-safe."""

    def __init__(
        self,
        grammar: PackedGrammar,
        weights: NDArray[np.float64],
        lm_words: NDArray[np.int32],
        language_model: LanguageModel | None,
        limits: SearchLimits,
        charts: list[DecodingChart] | None = None,
    ) -> None:
        """Weigh the grammar. `weights` float64[F + 6] are for grammar features, then for `COUNTED`.

        `lm_words` int32[V] are language-model numbers of target words. `charts` are unused charts, which decoders with
        the same language model can share.
        """
        self.grammar = grammar
        self.language_model = no_model() if language_model is None else language_model
        self.limits = limits
        self.weighed: WeightedGrammar = weigh(grammar, weights, self.language_model, lm_words)
        self._unused: list[DecodingChart] = [] if charts is None else charts

    def decode(self, sentence: InputSentence, limit: int = 1, *, distinct: bool = False) -> Outputs:
        """Return up to `limit` derivations of a nonempty sentence, best first, one per text if `distinct`."""
        task = DecodingTask(self.grammar, self.weighed, self.language_model, sentence, self.limits)
        words = len(sentence.words)
        longest = max(words, _WORDS)
        try:
            chart = self._unused.pop()
        except IndexError:
            chart = make_chart(longest, self.language_model.order, _SMALLEST)
        if len(chart.heads) < words + 2:
            chart = make_chart(longest, self.language_model.order, len(chart.items))
        while (goal := int(fill(task, chart))) < 0:
            chart = make_chart(longest, self.language_model.order, 2 * len(chart.items))
        lists, entries = best_entries(task, chart, goal, limit, distinct)
        outputs = write_out(task, chart, lists, entries)
        self._unused.append(chart)
        return outputs
