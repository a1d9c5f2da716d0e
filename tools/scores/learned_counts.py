"""Counts of a store's rules, words and word links, as arrays for scoring."""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.daemon.exceptions import NothingLearnedError, WrongKindError
from hierogram.daemon.learning.kinds.kind import load_undamaged
from hierogram.daemon.learning.kinds.pairs import parse_alignments
from hierogram.daemon.learning.stored_links import valid_alignments
from hierogram.daemon.progress import Phases
from hierogram.samplers.charts.dense import RuleSides
from hierogram.samplers.grammar.rules import escape_terminal, parse_side
from hierogram.samplers.grammar.settings import PITMAN_YOR, SYNCHRONOUS
from hierogram.samplers.scores.lexicon import Lexicon, LinkCounts, SideCounts, count_neighbors
from hierogram.samplers.scores.scorer import KnownRules, PairsToScore
from hierogram.storage.records.pairs import PairRow
from hierogram.storage.records.settings import Settings
from hierogram.storage.store import Store

_PAIRS_PER_READ = 2_000
_MAX_EXAMPLES = 1_500
"""Maximum number of example pairs for the misfit classifiers and the baseline of doubt."""
_MAX_SCOPE = 3
"""Maximum scope of rules. A rule of scope k can match a sentence of n words in O(n^k) ways."""
_UNKNOWN = -10_000
"""Symbol of a word that does not occur in stored pairs, because the pairs of its rules were withdrawn."""


class Concatenation(NamedTuple):
    """Concatenated rows: words of n sentences, symbols of rule sides, or positions of links."""

    values: NDArray[np.int32]
    # int64[n+1]: index of the first value of each row, and the number of values.
    first: NDArray[np.int64]


class LearnedCounts:
    """Counts of a synchronous grammar. Raises `WrongKindError`, or `NothingLearnedError` without rules.

    `words` maps the words of each side to numbers. `token_ids` contains the numbers of all tokens of each side.
    `examples` are random pairs. `last_pair` is the highest id of a pair. `position` is the position of the store when
    reading began.
    """

    def __init__(self, store: Store, report: Phases) -> None:
        self.position = store.position()
        self.settings: Settings = store.settings()
        if self.settings.grammar != SYNCHRONOUS:
            raise WrongKindError(f"{store.url}: scores require a store with a synchronous grammar")
        self.words: tuple[dict[str, int], dict[str, int]] = ({}, {})
        self.last_pair = 0
        self.examples: list[PairRow] = []
        self.lexicon = self._read_pairs(store, report)
        with store.snapshot() as snapshot:
            total = snapshot.count_rules()
            if not total:
                raise NothingLearnedError(store.url)
            report("reading rules", 0, total)
            escaped = [{escape_terminal(word): number for word, number in words.items()} for words in self.words]
            parts = []
            for stored in snapshot.rule_ranges():
                part, rows = stored.rules, np.flatnonzero(stored.rules.count > 0)
                columns = _symbols(part.source.at(rows), escaped[0]), _symbols(part.target.at(rows), escaped[1])
                parts.append((part.keys[rows], *columns, part.length[rows], part.scope[rows], part.count[rows]))
            key_parts, source_parts, target_parts, *number_parts = zip(*parts, strict=True)
        keys = np.concatenate(key_parts)
        self._rule_ids = np.lexsort((keys[:, 1], keys[:, 0])).astype(np.int32)
        self._keys = _sortable(keys[self._rule_ids])
        self.rules = self._known_rules(
            _join_concatenations(source_parts), _join_concatenations(target_parts), *map(np.concatenate, number_parts)
        )

    def _read_pairs(self, store: Store, report: Phases) -> Lexicon:
        """Count words and links of all pairs. Sets `words`, `token_ids`, `examples` and `last_pair`."""
        total = store.count_pairs()
        random = np.random.default_rng(self.settings.seed)
        columns: tuple[list[Concatenation], ...] = ([], [])
        link_columns: tuple[list[Concatenation], ...] = ([], [])
        done = 0
        while rows := store.pairs(self.last_pair, _PAIRS_PER_READ):
            for row in rows:
                done += 1
                slot = len(self.examples) if done <= _MAX_EXAMPLES else int(random.integers(done))
                if slot < _MAX_EXAMPLES:
                    self.examples[slot : slot + 1] = [row._replace(averages=None)]
            texts_by_side = ([row.source for row in rows], [row.target for row in rows])
            *positions, first = parse_alignments(valid_alignments(rows))
            for k, (numbers, texts) in enumerate(zip(self.words, texts_by_side, strict=True)):
                word_ids = [[numbers.setdefault(word, len(numbers)) for word in text.split(" ")] for text in texts]
                columns[k].append(_concatenate_sides(word_ids))
                link_columns[k].append(Concatenation(positions[k].astype(np.int32), first))
            self.last_pair = rows[-1].id
            report("reading pairs", done, total)
        sizes = len(self.words[0]), len(self.words[1])
        source, target = map(_join_concatenations, columns)
        self.token_ids = source.values, target.values
        ends = [
            link.values + np.repeat(side.first[:-1], np.diff(link.first))
            for side, link in zip((source, target), map(_join_concatenations, link_columns), strict=True)
        ]
        codes = source.values[ends[0]].astype(np.int64) << 32 | target.values[ends[1]]
        links, times = np.unique(codes, return_counts=True)
        linked_ids = links >> 32, links & 0xFFFFFFFF

        def count_side(k: int) -> SideCounts:
            words = np.bincount(self.token_ids[k], minlength=sizes[k])
            with_links = np.bincount(self.token_ids[k][np.unique(ends[k])], minlength=sizes[k])
            uses = np.bincount(linked_ids[k], times, sizes[k]).astype(np.int64)
            partners = np.bincount(linked_ids[k], minlength=sizes[k])
            return SideCounts(words, with_links, uses, partners, int(words.sum()), int(with_links.sum()))

        neighbors = count_neighbors(*source, sizes[0]), count_neighbors(*target, sizes[1])
        first = np.searchsorted(linked_ids[0], np.arange(sizes[0] + 1))
        counts = LinkCounts(first, linked_ids[1].astype(np.int32), times.astype(np.int32))
        return Lexicon((count_side(0), count_side(1)), counts, neighbors)

    def _word_ids(self, side: int, texts: Iterable[Sequence[str]]) -> Concatenation:
        return _concatenate_sides([[self.words[side].get(word, -1) for word in words] for words in texts])

    def _known_rules(
        self, source: Concatenation, target: Concatenation, lengths: NDArray[np.int32], scopes: NDArray[np.int32],
        uses: NDArray[np.int64],
    ) -> KnownRules:  # fmt: skip
        number = len(uses)
        # Index rules by their rarest word, which has the lowest code: count, side and number.
        max_count = np.int64(1) << 62
        rarest = np.full(number, max_count)
        unknown = np.zeros(number, np.bool_)
        for side, (symbols, first) in enumerate((source, target)):
            rule = np.repeat(np.arange(number), np.diff(first))
            unknown[rule[symbols == _UNKNOWN]] = True
            word = symbols >= 0
            code = self.lexicon.sides[side].words[symbols[word]] << 33 | side << 32 | symbols[word].astype(np.int64)
            np.minimum.at(rarest, rule[word], code)
        wordless = len(self.words[0]) + len(self.words[1])
        group = (rarest & 0xFFFFFFFF) + np.where(rarest >> 32 & 1, len(self.words[0]), 0)
        group[rarest == max_count] = wordless
        usable = (scopes <= _MAX_SCOPE) & ~unknown
        indexed = np.flatnonzero(usable)
        indexed = indexed[np.argsort(group[indexed], kind="stable")]
        longest = int(lengths.max()) + 1
        settings = self.settings
        pooled = settings.model != PITMAN_YOR
        discount = 0.0 if pooled else settings.discount
        discounted = np.where(usable, uses - discount * uses.astype(float) ** discount, 0.0)
        all_lengths = np.arange(longest)
        log_factorial = np.concatenate(([0.0], np.cumsum(np.log(np.maximum(all_lengths[1:], 1)))))
        prior = np.exp(all_lengths * np.log(settings.rate) - settings.rate - log_factorial)
        return KnownRules(
            RuleSides(*source, *target), uses, lengths, usable, indexed.astype(np.int32),
            np.searchsorted(group[indexed], np.arange(wordless + 2)),
            np.bincount(lengths, uses, longest).astype(np.int64),
            np.asarray(np.bincount(lengths, discounted, longest), np.float64),
            np.ones(longest) if pooled else prior, discount, settings.strength, pooled,
        )  # fmt: skip

    def load_pairs(self, rows: Sequence[PairRow]) -> PairsToScore:
        """Return stored pairs with their contributions to the counts, which scores subtract."""
        source = self._word_ids(0, (row.source.split(" ") for row in rows))
        target = self._word_ids(1, (row.target.split(" ") for row in rows))
        linked, linked_to, first = parse_alignments(valid_alignments(rows))
        rules, uses, rule_first = self._derivation_rules(rows)
        return PairsToScore(
            *source, *target, *source, *target, linked.astype(np.int32), linked_to.astype(np.int32), first, rules, uses,
            rule_first,
        )  # fmt: skip

    def load_texts(self, texts: Sequence[tuple[Sequence[str], Sequence[str]]]) -> PairsToScore:
        """Return pairs of (source words, target words) that are not in the store."""
        source, target = (self._word_ids(side, (sides[side] for sides in texts)) for side in (0, 1))
        empty, first = np.zeros(0, np.int32), np.zeros(len(texts) + 1, np.int64)
        return PairsToScore(*source, *target, empty, first, empty, first, empty, empty, first, empty, empty, first)

    def _derivation_rules(
        self, rows: Sequence[PairRow]
    ) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.int64]]:
        """Return rule numbers (-1: deleted), uses, and the start of each pair. Skips damaged derivations."""
        undamaged, (loaded, state, *_) = load_undamaged([row for row in rows if row.current is not None], self.settings)
        occurrences = loaded.occurrences(state)
        sound_ids = {row.id for row in undamaged}
        positions = np.array([position for position, row in enumerate(rows) if row.id in sound_ids], np.int64)
        pairs = positions[occurrences.pairs]
        order = np.argsort(pairs, kind="stable")
        first = np.searchsorted(pairs[order], np.arange(len(rows) + 1))
        return self._find_rules(occurrences.keys[order]), occurrences.uses[order].astype(np.int32), first

    def _find_rules(self, keys: NDArray[np.uint64]) -> NDArray[np.int32]:
        """Return the numbers of rules by key, or -1 for rules that are not in use."""
        wanted = _sortable(keys)
        index = np.minimum(np.searchsorted(self._keys, wanted), len(self._keys) - 1)
        return np.where(self._keys[index] == wanted, self._rule_ids[index], np.int32(-1))


def _sortable(keys: NDArray[np.uint64]) -> NDArray[np.bytes_]:
    """Return keys as strings of 16 bytes that sort like (high, low)."""
    return keys.astype(">u8", order="C").view("S16")[:, 0]


def _symbols(texts: Sequence[str], numbers: dict[str, int]) -> Concatenation:
    """Return symbols of rule sides: word numbers, `_UNKNOWN`, and -k for nonterminal k. Extends `numbers`."""
    sides = [text.split(" ") for text in texts]
    for token in {token for side in sides for token in side} - numbers.keys():
        [symbol] = parse_side(token)
        numbers[token] = -symbol if isinstance(symbol, int) else _UNKNOWN
    return _concatenate_sides([[numbers[token] for token in side] for side in sides])


def _concatenate_sides(sides: list[list[int]]) -> Concatenation:
    first = np.zeros(len(sides) + 1, np.int64)
    np.cumsum([len(side) for side in sides], out=first[1:])
    return Concatenation(np.array([word for side in sides for word in side], np.int32), first)


def _join_concatenations(columns: Sequence[Concatenation]) -> Concatenation:
    sizes = np.concatenate([np.zeros(0, np.int64), *(np.diff(column.first) for column in columns)])
    values = np.concatenate([np.zeros(0, np.int32), *(column.values for column in columns)])
    return Concatenation(values, np.concatenate([[0], np.cumsum(sizes)]).astype(np.int64))


def iterate_rows(store: Store, after: int = 0) -> Iterator[PairRow]:
    """Yield all pairs of a store with an id above `after`, in order of their ids."""
    while rows := store.pairs(after, _PAIRS_PER_READ):
        yield from rows
        after = rows[-1].id
