"""Extraction of bilingual terms from the aligned pairs of a store, in four passes with bounded memory.

Passes 1 to 3 count candidates, which are phrases with their most frequent rendering. Pass 1 counts approximately in a
fixed-size hash table [Park, Chen & Yu 1995]. Passes 2 and 3 count exactly the phrases that may be frequent. Candidates
are ranked by log-likelihood ratio [Dunning 1993] and cohesion, and filtered by consistency and nesting in longer terms.
Pass 4 collects the details of the selected terms: case, renderings, corpora, dates, and departures, which are pairs
that contain a term without its usual rendering.
"""

import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date, timedelta
from typing import TYPE_CHECKING, NamedTuple, Unpack

import numpy as np
from numpy.typing import NDArray

from hierogram.daemon.exceptions import InputError, NothingLearnedError, WrongKindError
from hierogram.daemon.library.options import resolve_options
from hierogram.daemon.library.store import GrammarStore
from hierogram.daemon.progress import Phases
from hierogram.daemon.text.word_view import WordView
from hierogram.samplers.grammar.kinds import PAIRS, SOURCE, TARGET, find_grammar_kind
from hierogram.storage.exports.snapshot import TERM_COLUMNS, Block, Snapshot
from hierogram.tools.terms.options import TermOptions
from hierogram.tools.terms.phrases import (
    HASH_STEP,
    BoolArray,
    HashArray,
    IntArray,
    PairSpool,
    SidePhrases,
    TermPairs,
    TermVocabulary,
    Vocabularies,
    extend_hashes,
    linked_phrases,
    make_sides,
    make_vocabulary,
    mix_bits,
    pair_hashes,
    parse_block,
)
from hierogram.tools.terms.reports import GAP, Departure, Rendering, Term, TermReport

if TYPE_CHECKING:
    from hierogram.tools.keywords import TermKeywords

FloatArray = NDArray[np.float64]

_TABLE_BITS = 22
"""Binary logarithm of the size of the table of approximate counts, indexed by first bits of hashes."""
_MAX_PENDING = 1 << 20


class HashCounter:
    """Exact counts of hashes. Each hash has a description of `width` integers from its first occurrence."""

    def __init__(self, width: int) -> None:
        self._width, self._max_pending = width, _MAX_PENDING
        self._pending: list[tuple[HashArray, IntArray, IntArray]] = []

    def add(self, hashes: HashArray, counts: IntArray, descriptions: IntArray) -> None:
        """Add hashes, uint64[n], with counts, int64[n] or int64[n, k], and descriptions, int64[n, width]."""
        if len(hashes):
            self._pending.append((hashes, counts.reshape(len(hashes), -1), descriptions))
        if sum(len(part[0]) for part in self._pending) > self._max_pending:
            # Allow twice as many rows as distinct hashes, so that the total cost of merging is linear in added rows.
            self._max_pending = max(self._max_pending, 2 * len(self.result()[0]))

    def result(self) -> tuple[HashArray, IntArray, IntArray]:
        """Return the distinct hashes in ascending order, their summed counts, int64[n, k], and descriptions."""
        if not self._pending:
            return np.zeros(0, np.uint64), np.zeros((0, 1), np.int64), np.zeros((0, self._width), np.int64)
        columns = [np.concatenate(column) for column in zip(*self._pending, strict=True)]
        hashes, first, number = np.unique(columns[0].astype(np.uint64), return_index=True, return_inverse=True)
        counts = np.zeros((len(hashes), columns[1].shape[1]), np.int64)
        np.add.at(counts, number, columns[1])
        self._pending = [(hashes, counts, columns[2][first])]
        return self._pending[0]


def _find_positions(sorted_hashes: HashArray, hashes: HashArray) -> IntArray:
    """Return the index of each hash in a sorted array, or -1 if the array does not contain the hash."""
    if not len(sorted_hashes):
        return np.full(len(hashes), -1)
    positions = np.minimum(np.searchsorted(sorted_hashes, hashes), len(sorted_hashes) - 1)
    return np.where(sorted_hashes[positions] == hashes, positions, -1)


class TermCandidates(NamedTuple):
    """Phrases and their most frequent renderings, as columns of n rows.

    `sources` and `targets` are hashes of the phrases. `source_words` and `target_words` are their word ids,
    int64[n, max_length], padded with -1. `both` is the number of pairs with the phrase and this rendering,
    `with_source` with the phrase, and `with_target` with the target phrase, linked or not.
    """

    sources: HashArray
    targets: HashArray
    source_words: IntArray
    target_words: IntArray
    both: IntArray
    with_source: IntArray
    with_target: IntArray

    def select(self, rows: IntArray | BoolArray) -> "TermCandidates":
        """Return the selected rows."""
        return TermCandidates._make(column[rows] for column in self)


NextPass = Callable[[], Iterable[TermPairs]]
"""Function that starts a new pass over all pairs, in blocks."""


def _count_candidates(
    next_pass: NextPass, approximate_counts: NDArray[np.uint32], words: Vocabularies, options: TermOptions
) -> TermCandidates:
    """Count frequent phrases with their renderings exactly (pass 2), and pick renderings (pass 3)."""
    counter = HashCounter(2 + 2 * options.max_words)
    for pairs in next_pass():
        source, target = make_sides(pairs, words, options.max_words)
        phrases, renderings, hashes = _find_candidates(source, target, options)
        frequent = approximate_counts[hashes >> np.uint64(64 - _TABLE_BITS)] >= options.min_count
        phrases, renderings, hashes = phrases[frequent], renderings[frequent], hashes[frequent]
        sides = np.stack((source.hashes[phrases], target.hashes[renderings])).view(np.int64).T
        source_words = source.rows(words[0].folded[source.words], phrases)
        target_words = target.rows(words[1].folded[target.words], renderings)
        descriptions = np.concatenate((sides, source_words, target_words), axis=1)
        counter.add(hashes, np.ones(len(hashes), np.int64), descriptions)
    hashes, counts, descriptions = counter.result()
    frequent = counts[:, 0] >= options.min_count
    return _pick_renderings(next_pass, hashes[frequent], descriptions[frequent], words, options)


def _find_candidates(
    source: SidePhrases, target: SidePhrases, options: TermOptions
) -> tuple[IntArray, IntArray, HashArray]:
    """Return the possible terms of a block, their renderings, and hashes of both, once per pair."""
    phrases = np.flatnonzero(source.allowed)
    begins = source.begins(phrases)
    linked = source.high >= source.low
    phrases = phrases[linked[begins] & linked[begins + source.lengths(phrases) - 1]]
    phrases, renderings = linked_phrases(source, target, phrases)
    fit = np.maximum(source.lengths(phrases), target.lengths(renderings)) >= options.min_words
    fit &= target.allowed[renderings]
    phrases, renderings = phrases[fit], renderings[fit]
    pair, hashes = source.pair[source.begins(phrases)], pair_hashes(source.hashes[phrases], target.hashes[renderings])
    order = np.lexsort((hashes, pair))
    first = np.sort(order[_differs_from_previous(pair[order], hashes[order])])
    return phrases[first], renderings[first], hashes[first]


def _differs_from_previous(*columns: IntArray | HashArray) -> BoolArray:
    """Return True for rows that differ from the previous row in a column, and for the first row."""
    new = np.ones(len(columns[0]), np.bool_)
    new[1:] = np.logical_or.reduce([column[1:] != column[:-1] for column in columns])
    return new


def _pick_renderings(
    next_pass: NextPass, hashes: HashArray, descriptions: IntArray, words: Vocabularies, options: TermOptions
) -> TermCandidates:
    """Return the most frequent rendering of each source phrase. The rarer target phrase wins ties."""
    max_length = options.max_words
    sources, targets = (np.ascontiguousarray(descriptions[:, k]).view(np.uint64) for k in (0, 1))
    distinct = np.unique(sources), np.unique(targets)
    both, with_source, with_target = (np.zeros(len(selected), np.int64) for selected in (hashes, *distinct))
    for pairs in next_pass() if len(hashes) else ():
        sides = make_sides(pairs, words, max_length)
        for counts, side, side_hashes in zip((with_source, with_target), sides, distinct, strict=True):
            phrases = np.flatnonzero(side.allowed)
            _count_pairs(counts, side, phrases, _find_positions(side_hashes, side.hashes[phrases]))
        source, target = sides
        phrases = np.flatnonzero(source.allowed)
        phrases = phrases[_find_positions(distinct[0], source.hashes[phrases]) >= 0]
        phrases, renderings = linked_phrases(source, target, phrases)
        both_hashes = pair_hashes(source.hashes[phrases], target.hashes[renderings])
        _count_pairs(both, source, phrases, _find_positions(hashes, both_hashes))
    source_positions = _find_positions(distinct[0], sources)
    target_counts = with_target[_find_positions(distinct[1], targets)]
    texts = descriptions[:, 2:]
    order = np.lexsort((*texts.T[::-1], target_counts, -both, source_positions))
    chosen = order[_differs_from_previous(source_positions[order])]
    return TermCandidates(
        sources[chosen], targets[chosen], texts[chosen][:, :max_length], texts[chosen][:, max_length:], both[chosen],
        with_source[source_positions[chosen]], target_counts[chosen],
    )  # fmt: skip


def _count_pairs(counts: IntArray, side: SidePhrases, phrases: IntArray, rows: IntArray) -> None:
    """Count in `counts[row]` the pairs with a phrase of each row. Ignores negative rows."""
    size, found = len(side.words), rows >= 0
    np.add.at(counts, np.unique(rows[found] * size + side.pair[side.begins(phrases[found])]) // size, 1)


_NESTED_SHARE = 0.8


def likelihood_ratio(both: IntArray, first: IntArray, second: IntArray, pairs: int) -> FloatArray:
    """Return the log-likelihood ratio −2 ln λ of co-occurrence [Dunning 1993], 0 if not above chance."""
    cells = np.stack((both, first - both, second - both, pairs - first - second + both)).astype(np.float64)
    cells = np.maximum(cells, 0)
    expected = np.stack((first * second, first * (pairs - second), (pairs - first) * second,
                         (pairs - first) * (pairs - second))).astype(np.float64) / max(pairs, 1)  # fmt: skip
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where((cells > 0) & (expected > 0), cells * np.log(cells / expected), 0.0)
    ratio: FloatArray = np.where(cells[0] > expected[0], np.maximum(2 * terms.sum(axis=0), 0.0), 0.0)
    return ratio


def _rank_terms(
    candidates: TermCandidates, pairs: int, options: TermOptions, words: Vocabularies
) -> tuple[TermCandidates, FloatArray]:
    """Return the best n terms, and their scores, log-likelihood ratios and cohesions, float64[n, 3]."""
    candidates = candidates.select(
        (candidates.both >= options.min_count) & (candidates.both >= options.consistency * candidates.with_source)
    )
    candidates = candidates.select(~_nested_terms(candidates, words))
    ratios = likelihood_ratio(candidates.both, candidates.with_source, candidates.with_target, pairs)
    cohesions = np.minimum(
        _cohesion(candidates.source_words, candidates.with_source, words[0]),
        _cohesion(candidates.target_words, candidates.with_target, words[1]),
    )
    scores = ratios * np.maximum(cohesions, 0)
    order = np.lexsort((candidates.sources, -candidates.both, -scores))[: options.top]
    return candidates.select(order), np.stack((scores, ratios, cohesions), axis=1)[order]


def _cohesion(words: IntArray, counts: IntArray, vocabulary: TermVocabulary) -> FloatArray:
    """Return the normalized PMI of each phrase's first and last word [Bouma 2009], or 1 for single words."""
    lengths = (words >= 0).sum(axis=1)
    first = vocabulary.counts[words[:, 0]]
    last = vocabulary.counts[words[np.arange(len(words)), lengths - 1]]
    # The expected number is computed as if the two words were independent.
    total = float(vocabulary.counts[np.unique(vocabulary.folded)].sum())
    expected = first.astype(np.float64) * last / total
    information = np.log(np.maximum(counts, 1) / np.maximum(expected, 1e-9))
    upper_bound = np.log(total / np.maximum(counts, 1))
    values: FloatArray = np.where(lengths > 1, np.minimum(information / np.maximum(upper_bound, 1e-9), 1), 1.0)
    return values


def _nested_terms(candidates: TermCandidates, words: Vocabularies) -> BoolArray:
    """Return bool[n]: True if both sides are inside a longer term.

    The pair count of the longer term must be at least `_NESTED_SHARE` of the term's.
    """
    order = np.argsort(candidates.sources)
    hashes, longer, is_whole = _subphrases(candidates.source_words, words[0])
    positions = _find_positions(candidates.sources[order], hashes)
    found = (positions >= 0) & ~is_whole
    shorter, longer = order[positions[found]], longer[found]
    target_hashes, target_rows, _ = _subphrases(candidates.target_words, words[1])
    is_nested = candidates.both[longer] >= _NESTED_SHARE * candidates.both[shorter]
    is_nested &= np.isin(
        pair_hashes(longer.astype(np.uint64), candidates.targets[shorter]),
        pair_hashes(target_rows.astype(np.uint64), target_hashes),
    )
    return np.isin(np.arange(len(order)), shorter[is_nested])


def _subphrases(words: IntArray, vocabulary: TermVocabulary) -> tuple[HashArray, IntArray, BoolArray]:
    """Return hashes of subphrases, rows of their phrases, and True for the whole phrase."""
    lengths = (words >= 0).sum(axis=1)
    values = vocabulary.values[np.maximum(words, 0)]
    parts = []
    for begin in range(words.shape[1]):
        hashes = np.zeros(len(words), np.uint64)
        for last in range(begin, words.shape[1]):
            hashes = extend_hashes(hashes, values[:, last])
            rows = np.flatnonzero(lengths > last)
            parts.append((hashes[rows], rows, lengths[rows] == last + 1 - begin))
    all_hashes, all_rows, is_whole = map(np.concatenate, zip(*parts, strict=True))
    return all_hashes, all_rows, is_whole


_MID_SENTENCE_WEIGHT = 1 << 20
"""Weight of the case of an occurrence within a sentence, against 1 at the beginning of a sentence."""
_MAX_RENDERINGS = 6
_EPOCH = date(1970, 1, 1)
_LAST_DAY = 1 << 30


class _Occurrences(NamedTuple):
    """Occurrences of terms: indices of term, pair, source phrase, and rendering (-1: none)."""

    term: IntArray
    pair: IntArray
    phrase: IntArray
    rendering: IntArray

    def select(self, rows: IntArray | BoolArray) -> "_Occurrences":
        return _Occurrences(*(column[rows] for column in self))


class _TermDetails:
    """Collector of details of terms. Call `add` for all blocks, then `make_terms`, then `departures`."""

    def __init__(self, terms: TermCandidates, words: Vocabularies, max_length: int, max_departures: int) -> None:
        self._terms, self._words, self._max_length = terms, words, max_length
        self._order = np.argsort(terms.sources)
        size = len(terms.sources)
        self._sources, self._renderings = HashCounter(1 + max_length), HashCounter(1 + max_length)
        self._corpora = Counter[tuple[int, int]]()
        self._first, self._last = np.full(size, _LAST_DAY), np.full(size, -1)
        self._departures_left = np.full(size, max_departures)
        self._departures: list[tuple[int, int, str, str, str]] = []

    def add(self, pairs: TermPairs) -> None:
        source, target = make_sides(pairs, self._words, self._max_length)
        occurrences = self._find_occurrences(source, target)
        if not len(occurrences.term):
            return
        is_linked = occurrences.rendering >= 0
        hashes = np.where(is_linked, target.hashes[occurrences.rendering], np.uint64(0))
        self._count_forms(self._sources, occurrences.term, source, occurrences.phrase)
        # Count each rendering of a term once per pair.
        order = np.lexsort((hashes, occurrences.term, occurrences.pair))
        chosen = order[_differs_from_previous(occurrences.pair[order], occurrences.term[order], hashes[order])]
        selected = occurrences.select(chosen[is_linked[chosen]])
        self._count_forms(self._renderings, selected.term, target, selected.rendering)
        size = len(pairs.ids)
        term_pairs, first = np.unique(occurrences.term * size + occurrences.pair, return_index=True)
        once = occurrences.select(first)
        days, corpora = pairs.days[once.pair], pairs.corpora[once.pair]
        np.minimum.at(self._first, once.term, days)
        np.maximum.at(self._last, once.term, days)
        self._corpora.update(zip(once.term.tolist(), corpora.tolist(), strict=True))
        is_usual = is_linked & (hashes == self._terms.targets[occurrences.term])
        is_departure = ~np.isin(term_pairs, occurrences.term[is_usual] * size + occurrences.pair[is_usual])
        self._record_departures(pairs, once.select(is_departure), source, target)

    def _find_occurrences(self, source: SidePhrases, target: SidePhrases) -> _Occurrences:
        phrases = np.flatnonzero(source.allowed)
        positions = _find_positions(self._terms.sources[self._order], source.hashes[phrases])
        phrases, terms = phrases[positions >= 0], self._order[positions[positions >= 0]]
        linked, linked_renderings = linked_phrases(source, target, phrases)
        renderings = np.full(len(phrases), -1)
        renderings[np.searchsorted(phrases, linked)] = linked_renderings
        return _Occurrences(terms, source.pair[source.begins(phrases)], phrases, renderings)

    def _count_forms(self, counter: HashCounter, terms: IntArray, side: SidePhrases, phrases: IntArray) -> None:
        """Count case-sensitive forms by term. The second count weighs forms within sentences higher."""
        rows = side.rows(side.words, phrases)
        hashes = np.zeros(len(rows), np.uint64)
        for column in rows.T:
            hashes = mix_bits(hashes * HASH_STEP + (column + 2).astype(np.uint64))
        weights = np.where(side.first[side.begins(phrases)], 1, _MID_SENTENCE_WEIGHT)
        counts = np.stack((np.ones(len(terms), np.int64), weights), axis=1)
        descriptions = np.concatenate((terms[:, None], rows), axis=1)
        counter.add(pair_hashes(terms.astype(np.uint64), hashes), counts, descriptions)

    def _record_departures(
        self, pairs: TermPairs, departures: _Occurrences, source: SidePhrases, target: SidePhrases
    ) -> None:
        begins, lengths = source.begins(departures.phrase), source.lengths(departures.phrase)
        for row in np.lexsort((begins, departures.term)).tolist():
            term, pair, begin, length = (int(x[row]) for x in (departures.term, departures.pair, begins, lengths))
            if self._departures_left[term] == 0:
                continue
            self._departures_left[term] -= 1
            link_range = np.searchsorted(pairs.source_links, (begin, begin + length))
            linked = np.unique(pairs.target_links[link_range[0] : link_range[1]])
            runs = np.split(linked, np.flatnonzero(np.diff(linked) > 1) + 1)
            text = GAP.join(self._words[1].text(target.words[run]) for run in runs if len(run))
            self._departures.append((term, int(pairs.ids[pair]), text, *pairs.texts(pair, self._words)))

    def make_terms(self, scores: FloatArray, names: Mapping[int, str]) -> list[Term]:
        """Return the terms with their scores, float64[n, 3]. `names` maps corpus ids to names."""
        sources = _group_forms(self._sources, self._words[0])
        renderings = _group_forms(self._renderings, self._words[1])
        corpora: dict[int, dict[str, int]] = defaultdict(dict)
        for (term, corpus), number in sorted(self._corpora.items()):
            corpora[term][names[corpus]] = number
        terms = self._terms
        made_terms = []
        for k, (score, ratio, cohesion) in enumerate(scores.tolist()):
            target_text = self._words[1].text(terms.target_words[k]).lower()
            listed = sorted(renderings[k], key=lambda item: item.text.lower() != target_text)[:_MAX_RENDERINGS]
            both, with_source, with_target = (int(column[k]) for column in terms[-3:])
            made_terms.append(Term(
                sources[k][0].text, listed[0].text, round(score, 2), both, with_source, with_target,
                round(both / with_source, 4), round(ratio, 2), round(cohesion, 4), tuple(listed),
                corpora[k],
                _EPOCH + timedelta(days=int(self._first[k])), _EPOCH + timedelta(days=int(self._last[k])),
            ))  # fmt: skip
        return made_terms

    def departures(self, snapshot: Snapshot, terms: Sequence[Term]) -> list[Departure]:
        """Return the pairs that lack the usual rendering of a term, in the order of the terms."""
        origins_by_pair = snapshot.pair_origins([pair for _, pair, *_ in self._departures])
        return [
            Departure(terms[term].source, terms[term].target, variant, pair, *origins_by_pair[pair], source, target)
            for term, pair, variant, source, target in sorted(self._departures, key=lambda item: item[:2])
        ]


def _group_forms(counter: HashCounter, vocabulary: TermVocabulary) -> dict[int, list[Rendering]]:
    """Return the phrases of each term, most frequent first, each in its most frequent mid-sentence case."""
    _, counts, descriptions = counter.result()
    cases: dict[int, dict[tuple[int, ...], list[tuple[int, int, str]]]] = defaultdict(lambda: defaultdict(list))
    for (term, *words), (number, weight) in zip(descriptions.tolist(), counts.tolist(), strict=True):
        folded = tuple(int(vocabulary.folded[word]) for word in words if word >= 0)
        cases[term][folded].append((weight, number, " ".join(vocabulary.tokens[word] for word in words if word >= 0)))
    renderings = {}
    for term, phrases in cases.items():
        listed = [
            Rendering(max(forms, key=lambda form: (form[0], form[2]))[2], sum(number for _, number, _ in forms))
            for forms in phrases.values()
        ]
        renderings[term] = sorted(listed, key=lambda phrase: (-phrase.pairs, phrase.text))
    return renderings


def terms(
    store: GrammarStore,
    *,
    departures: int = 0,
    options: TermOptions | None = None,
    progress: Phases = lambda *_: None,
    **chosen: "Unpack[TermKeywords]",
) -> TermReport:
    """Find terms with consistent renderings, and up to `departures` pairs per term without the usual one.

    Texts in the report are tokens, see `TermReport.as_text`. Options are the fields of `TermOptions`. Pairs must be
    aligned, but rules are not required. Raises `UsageError` for invalid options, `WrongKindError` if the pairs are not
    bilingual, `InputError` if the corpus does not exist, and `NothingLearnedError` if no pair is aligned.
    """
    options = resolve_options(TermOptions, options, chosen)
    with store.store.snapshot() as snapshot, tempfile.TemporaryFile() as file:
        settings = snapshot.settings()
        if find_grammar_kind(settings.grammar).input_kind != PAIRS:
            raise WrongKindError(
                f"{store.url}: term extraction requires bilingual pairs, but this store contains monolingual trees"
            )
        view = WordView(settings.word_parts)
        source_counts, target_counts = (_word_counts(snapshot, side, view) for side in (SOURCE, TARGET))
        words = make_vocabulary(source_counts), make_vocabulary(target_counts)
        total = sum(snapshot.state().pairs().values())
        approximate_counts, spool = np.zeros(1 << _TABLE_BITS, np.uint32), PairSpool(file)
        corpora = snapshot.corpus_ids()
        if options.corpus not in (None, *corpora):
            known = ", ".join(sorted(corpora)) or "none"
            raise InputError(f"corpus {options.corpus!r} not found; the store has: {known}")
        corpus = None if options.corpus is None else corpora[options.corpus]
        for block in snapshot.pair_blocks(corpus, TERM_COLUMNS):
            pairs = parse_block(_join_subwords(block, view), words)
            spool.add(pairs)
            *_, hashes = _find_candidates(*make_sides(pairs, words, options.max_words), options)
            np.add.at(approximate_counts, hashes >> np.uint64(64 - _TABLE_BITS), 1)
            progress("reading", spool.pairs, total)
        if not spool.pairs:
            raise NothingLearnedError(store.url)

        def next_pass(step: str = "counting") -> Iterator[TermPairs]:
            return spool.read(lambda done: progress(step, done, spool.pairs))

        candidates = _count_candidates(next_pass, approximate_counts, words, options)
        best, scores = _rank_terms(candidates, spool.pairs, options, words)
        details = _TermDetails(best, words, options.max_words, departures)
        for pairs in next_pass("reporting"):
            details.add(pairs)
        made_terms = details.make_terms(scores, {number: name for name, number in corpora.items()})
        departed = details.departures(snapshot, made_terms)
        return TermReport(spool.pairs, tuple(made_terms), tuple(departed), settings.languages)


def _word_counts(snapshot: Snapshot, side: str, view: WordView) -> Sequence[tuple[str, int]]:
    """Count the words of one side. All pairs are read if the store only has counts of word parts."""
    if not view.word_parts:
        return snapshot.word_counts(side)
    counts = Counter[str]()
    for _, (sources, targets, _) in snapshot.pair_blocks():
        for line in (sources if side == SOURCE else targets).split("\n"):
            counts.update(view.line(line).split(" "))
    return list(counts.items())


def _join_subwords(block: Block, view: WordView) -> Block:
    if not view.word_parts:
        return block
    number, (*leading, sources, targets, alignments) = block
    lines = zip(*(column.split("\n") for column in (sources, targets, alignments)), strict=True)
    pairs = [view.pair(*line)[:3] for line in lines]
    return number, [*leading, *("\n".join(column) for column in zip(*pairs, strict=True))]
