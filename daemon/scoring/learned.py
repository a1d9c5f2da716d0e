"""A store's grammar, as scores need it: rules with their counts, words, and links of words."""

from array import array
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from hashlib import blake2b
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.daemon.exceptions import NothingLearnedError, WrongKindError
from hierogram.daemon.grammar.derivations import derivation_of
from hierogram.daemon.scoring.misfits import Contexts
from hierogram.samplers.charts.pairs import ANY
from hierogram.samplers.exceptions import DerivationError
from hierogram.samplers.grammar.rules import parse_side
from hierogram.samplers.grammar.settings import PITMAN_YOR, SYNCHRONOUS
from hierogram.storage.records import PairRow, Settings
from hierogram.storage.store import Store

Texts = tuple[str, str]
"""The two sides of a rule, as texts."""


class RuleNumbers:
    """Rules numbered from 0, told apart by digests of 128 bits of their sides."""

    def __init__(self, rules: Iterable[Texts]) -> None:
        """Number the rules, which are all different."""
        digests = np.frombuffer(b"".join(map(_digest, rules)), np.uint64).reshape(-1, 2)
        self._order = np.argsort(digests[:, 0], kind="stable").astype(np.int32)
        self._digests = digests[self._order]

    def get(self, rule: Texts) -> int:
        """Return the rule's number, -1 where it has none."""
        first, second = np.frombuffer(_digest(rule), np.uint64)
        place = int(np.searchsorted(self._digests[:, 0], first))
        while place < len(self._order) and self._digests[place, 0] == first:
            if self._digests[place, 1] == second:
                return int(self._order[place])
            place += 1
        return -1


def _digest(rule: Texts) -> bytes:
    source, target = rule
    return blake2b(f"{source}\n{target}".encode(), digest_size=16).digest()


_BATCH = 2_000
_REPORTED = 10_000
_EXAMPLES = 1_500
"""Pairs from which it is learned what words that do not belong look like."""
_MOST_SCOPE = 3
"""Rules of a larger scope are left out: they would take more than O(n³) places on a side."""

Report = Callable[[str, int, int | None], None]
"""Hears what is done, how much of it, and of how much."""
Sides = tuple[list[int], list[int]]
"""The words of a pair by number, -1 for those that no stored pair has."""


class LearnedRules(NamedTuple):
    """R rules in use.

    `number`: the number of each by its sides. `source`, `target`: the symbols of all sides one after the other, int32,
    words by their numbers, nonterminal k (from 1) as -k; `source_first`, `target_first` int64[R+1]. `length` int32[R],
    `uses` int64[R]. `by_word`: for each key (side, word) the rules whose rarest word it is; `wordless` those without.
    """

    number: RuleNumbers
    source: NDArray[np.int32]
    source_first: NDArray[np.int64]
    target: NDArray[np.int32]
    target_first: NDArray[np.int64]
    length: NDArray[np.int32]
    uses: NDArray[np.int64]
    by_word: dict[tuple[int, int], NDArray[np.int64]]
    wordless: NDArray[np.int64]


class Own(NamedTuple):
    """A stored pair's own part of what is learned: uses of rules, links of words, words, words with a
    link, and the words of both sides in their order."""

    rules: Counter[Texts]
    links: Counter[tuple[int, int]]
    words: tuple[Counter[int], Counter[int]]
    linked: tuple[Counter[int], Counter[int]]
    sides: Sides

    @classmethod
    def nothing(cls) -> "Own":
        """Return that of a pair that is not stored."""
        return cls(Counter(), Counter(), (Counter(), Counter()), (Counter(), Counter()), ([], []))

    @classmethod
    def of(cls, row: PairRow, sides: Sides, learned: "Learned") -> "Own":
        """Return that of a stored pair; no rules where its derivation cannot be read."""
        return cls.of_links(row.alignment, sides)._replace(rules=learned.rules_of(row))

    @classmethod
    def of_links(cls, alignment: str, sides: Sides) -> "Own":
        """Return the same without rules."""
        links, (source, target) = links_of(alignment, sides)
        return cls(
            Counter(),
            Counter(links),
            (Counter(sides[0]), Counter(sides[1])),
            (Counter(source), Counter(target)),
            sides,
        )


class Learned:
    """All that a store's derivations and links say.

    `words`: numbers of both sides' words; `word_counts` int64 of each side; `tokens` int32: all words of each side, one
    by one; `contexts`: how often words stand beside others; `links`: how often two words are linked, by their numbers.
    `examples`: sides and alignments of some pairs, drawn by the store's seed. `last_pair`: the last pair's id;
    `position`: the store's when reading began.
    """

    def __init__(self, store: Store, report: Report) -> None:
        """Raise `WrongKindError` where the store holds no rules of two languages, `NothingLearnedError` where none."""
        self.position = store.position()
        self.settings: Settings = store.settings()
        if self.settings.grammar != SYNCHRONOUS:
            raise WrongKindError(f"{store.url}: scores are of stores of synchronous grammars, this one is another")
        self.words: tuple[dict[str, int], dict[str, int]] = ({}, {})
        self.links: Counter[tuple[int, int]] = Counter()
        linked: tuple[Counter[int], Counter[int]] = (Counter(), Counter())
        counts: tuple[Counter[int], Counter[int]] = (Counter(), Counter())
        total = store.count_pairs()
        self.last_pair = 0
        self.examples: list[tuple[Sides, str]] = []
        random = np.random.default_rng(self.settings.seed)
        flat: tuple[array[int], array[int]] = (array("i"), array("i"))
        first: tuple[array[int], array[int]] = (array("q", [0]), array("q", [0]))
        for done, row in enumerate(rows_of(store), 1):
            sides = self._numbers(0, row.source.split(" ")), self._numbers(1, row.target.split(" "))
            for k in (0, 1):
                counts[k].update(sides[k])
                flat[k].extend(sides[k])
                first[k].append(len(flat[k]))
            self.last_pair = row.id
            place = len(self.examples) if done <= _EXAMPLES else int(random.integers(done))
            if place < _EXAMPLES:
                self.examples[place : place + 1] = [(sides, row.alignment)]
            links, words_with_links = links_of(row.alignment, sides)
            self.links.update(links)
            for k, words in enumerate(words_with_links):
                linked[k].update(words)
            if done % _BATCH == 0:
                report("reading pairs", done, total)
        self.word_counts = tuple(np.array([count[word] for word in range(len(count))], np.int64) for count in counts)
        self.linked_counts = tuple(
            np.array([linked[k][word] for word in range(len(counts[k]))], np.int64) for k in (0, 1)
        )
        ends = [np.array([link[k] for link in self.links], np.int64) for k in (0, 1)]
        times = np.array(list(self.links.values()))
        self.partners = tuple(np.bincount(ends[k], minlength=len(counts[k])) for k in (0, 1))
        self.link_totals = tuple(np.bincount(ends[k], times, len(counts[k])) for k in (0, 1))
        self.tokens = tuple(np.array(words, np.int32) for words in flat)
        self.contexts = tuple(
            Contexts(self.tokens[k], np.array(first[k], np.int64), len(self.words[k])) for k in (0, 1)
        )
        with store.snapshot() as snapshot:
            stored = snapshot.stored_rules().rules
        used = np.flatnonzero(stored.counts > 0)
        if not len(used):
            raise NothingLearnedError(store.url)
        usable = used[stored.scopes[used] <= _MOST_SCOPE]
        self.rules = self._table(
            stored.sources.at(usable), stored.targets.at(usable), stored.lengths[usable], stored.counts[usable], report
        )
        longest = int(stored.lengths[used].max())
        kept = self.discounted(stored.counts[usable])
        self._kept_by_length = np.bincount(stored.lengths[usable], kept, longest + 1)
        self.tokens_by_length = np.bincount(stored.lengths[used], stored.counts[used], longest + 1)

    def rules_of(self, row: PairRow) -> Counter[Texts]:
        """Return the rules of a stored pair's derivation, by their sides; none where it cannot be read."""
        try:
            return Counter((use.source, use.target) for use in derivation_of(row, self.settings))
        except DerivationError:
            return Counter()

    def _numbers(self, side: int, words: list[str]) -> list[int]:
        known = self.words[side]
        return [known.setdefault(word, len(known)) for word in words]

    def number(self, side: int, words: list[str]) -> list[int]:
        """Return the numbers of words, -1 for those that no stored pair has."""
        return [self.words[side].get(word, -1) for word in words]

    def _table(
        self, sources: list[str], targets: list[str], lengths: NDArray[np.int32], counts: NDArray[np.int64],
        report: Report,
    ) -> LearnedRules:  # fmt: skip
        columns: tuple[array[int], array[int]] = (array("i"), array("i"))
        firsts: tuple[array[int], array[int]] = (array("q", [0]), array("q", [0]))
        rarest: dict[tuple[int, int], list[int]] = {}
        wordless = []
        for rule, sides in enumerate(zip(sources, targets, strict=True)):
            if rule % _REPORTED == 0:
                report("reading rules", rule, len(sources))
            words = []
            for k in (0, 1):
                for symbol in parse_side(sides[k]):
                    if isinstance(symbol, int):
                        columns[k].append(-symbol)
                    else:
                        # A word of rules whose pairs are withdrawn by now is no word of any pair.
                        word = self.words[k].get(symbol, ANY)
                        columns[k].append(word)
                        words.append((self.word_counts[k][word] if word >= 0 else 0, k, word))
                firsts[k].append(len(columns[k]))
            if words:
                _, side, word = min(words)
                rarest.setdefault((side, word), []).append(rule)
            else:
                wordless.append(rule)
        return LearnedRules(
            RuleNumbers(zip(sources, targets, strict=True)),
            np.array(columns[0], np.int32),
            np.array(firsts[0], np.int64),
            np.array(columns[1], np.int32),
            np.array(firsts[1], np.int64),
            lengths.astype(np.int32),
            counts.astype(np.int64),
            {key: np.array(rules, np.int64) for key, rules in rarest.items()},
            np.array(wordless, np.int64),
        )

    def discounted(self, counts: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return n_r - d t_r of rules that are used n_r times."""
        discount = self.settings.discount if self.settings.model == PITMAN_YOR else 0.0
        found: NDArray[np.float64] = counts - discount * np.where(counts > 0, counts.astype(float) ** discount, 0.0)
        return found

    def length_factors(self, own: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return what n_r - d t_r is multiplied by to make a probability, for each length; `own` uses are left out."""
        tokens = np.maximum(self.tokens_by_length - own, 0)
        if self.settings.model != PITMAN_YOR:
            return np.full(len(tokens), 1.0 / (tokens.sum() + self.settings.strength))
        lengths = np.arange(len(tokens))
        log_factorial = np.concatenate(([0.0], np.cumsum(np.log(np.maximum(lengths[1:], 1)))))
        poisson = np.exp(lengths * np.log(self.settings.rate) - self.settings.rate - log_factorial)
        factors: NDArray[np.float64] = poisson / (tokens + self.settings.strength)
        return factors

    def new_mass(self, factors: NDArray[np.float64]) -> float:
        """Return the probability of all rules that are new, or left out here."""
        return max(1.0 - float((self._kept_by_length * factors).sum()), 1e-6)


def rows_of(store: Store) -> Iterator[PairRow]:
    """Yield all pairs of a store, in the order of their ids."""
    after = 0
    while rows := store.pairs(after, _BATCH):
        yield from rows
        after = rows[-1].id


def links_of(alignment: str, sides: Sides) -> tuple[list[tuple[int, int]], Sides]:
    """Return the linked words of a pair, by number, and the words of either side that have a link."""
    source, target = sides
    links = [(int(i), int(j)) for i, j in (link.split("-") for link in alignment.split())]
    linked = [source[i] for i in {i for i, _ in links}], [target[j] for j in {j for _, j in links}]
    return [(source[i], target[j]) for i, j in links], linked
