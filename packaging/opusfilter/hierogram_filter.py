"""Filter for OpusFilter: removes pairs that are doubtful under the grammar of a Hierogram store."""

from itertools import compress, tee

from opusfilter import CLEAN_LOW, FilterABC

import hierogram as hg


class HierogramFilter(FilterABC):
    """Filter by doubt. Pairs without a score get the maximum doubt."""

    score_direction = CLEAN_LOW
    accept_threshold = -1_000.0
    reject_threshold = 1_000.0

    def __init__(self, store, threshold=3.0, **kwargs):
        super().__init__(**kwargs)
        self.store, self.threshold = hg.open(store), threshold

    def score(self, pairs):
        """Yield the doubt of each pair."""
        for scored in hg.score(self.store, pairs):
            yield scored.score.doubt if scored.score else self.reject_threshold

    def accept(self, score):
        """Check if a pair with this doubt is kept."""
        return score < self.threshold

    def filter(self, pairs):
        """Yield the pairs that are kept, in order."""
        pairs, copies = tee(pairs)
        return compress(pairs, self.decisions(copies))
