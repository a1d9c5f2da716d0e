"""Interpolated modified Kneser-Ney from its definition: counters, sets and sums over the whole vocabulary."""

from collections import Counter, defaultdict
from collections.abc import Sequence
from functools import cache

NGram = tuple[str, ...]
FALLBACK = (0.5, 1.0, 1.5)


class KneserNey:
    """A model of tokenized sentences, each with <s> and </s> around it."""

    def __init__(self, sentences: Sequence[Sequence[str]], order: int) -> None:
        self.order = order
        raw: Counter[NGram] = Counter()
        for sentence in sentences:
            text = ("<s>", *sentence, "</s>")
            raw.update(text[k : k + n] for n in range(1, order + 1) for k in range(len(text) - n + 1))
        before = defaultdict(set)
        for gram in raw:
            before[gram[1:]].add(gram[0])
        # Use raw counts for the highest order and for n-grams at a sentence start, otherwise the number of distinct
        # preceding words.
        self.counts = {
            gram: number if len(gram) == order or gram[0] == "<s>" else len(before[gram])
            for gram, number in raw.items()
            if gram != ("<s>",)
        }
        self.words = {gram[0] for gram in self.counts if len(gram) == 1} | {"<unk>"}
        """All predictable words."""
        self.after: dict[NGram, list[NGram]] = defaultdict(list)
        for gram in self.counts:
            self.after[gram[:-1]].append(gram)
        self.discounts = {n: self._discounts(n) for n in range(1, order + 1)}
        self.probability = cache(self._probability)

    def _discounts(self, n: int) -> tuple[float, ...]:
        t = Counter(number for gram, number in self.counts.items() if len(gram) == n)
        if not all(t[k] for k in (1, 2, 3, 4)):
            return FALLBACK
        y = t[1] / (t[1] + 2 * t[2])
        found = (1 - 2 * y * t[2] / t[1], 2 - 3 * y * t[3] / t[2], 3 - 4 * y * t[4] / t[3])
        return found if all(0 <= d <= k for k, d in zip((1, 2, 3), found, strict=True)) else FALLBACK

    def total(self, context: NGram) -> int:
        return sum(self.counts[gram] for gram in self.after[context])

    def discount(self, n: int, number: int) -> float:
        return self.discounts[n][min(number, 3) - 1] if number else 0.0

    def weight(self, context: NGram) -> float:
        """Return the interpolation weight of the shorter context."""
        n = len(context) + 1
        return sum(self.discount(n, self.counts[gram]) for gram in self.after[context]) / self.total(context)

    def _probability(self, context: NGram, word: str) -> float:
        """Return P(word | context), linear."""
        context = context[max(0, len(context) - self.order + 1) :]
        lower = self.probability(context[1:], word) if context else 1 / len(self.words)
        if context not in self.after:
            return lower
        number = self.counts.get((*context, word), 0)
        own = (number - self.discount(len(context) + 1, number)) / self.total(context)
        return own + self.weight(context) * lower
