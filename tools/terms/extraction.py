"""Terms of a store, from its pairs and their links, in four passes in bounded memory.

Three passes count candidates, phrases with the rendering that they have most often: what is frequent among very many
things, in bounded memory [Park, Chen & Yu 1995]. Of these, terms are chosen by log-likelihood ratios [Dunning 1993],
consistency, and by phrases within longer ones. The fourth gathers what is reported of them: case, renderings, corpora,
days, departures.
"""

import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import date, timedelta
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.daemon.exceptions import InputError, NothingLearnedError, WrongKindError
from hierogram.daemon.text.segments import InWords
from hierogram.samplers.grammar.kinds import PAIRS, SOURCE, TARGET, notation_of
from hierogram.storage.exports.snapshot import TERM_COLUMNS, Block, Snapshot
from hierogram.storage.store import Store
from hierogram.tools.terms.options import TermOptions
from hierogram.tools.terms.phrases import (
    Flags,
    Hashes,
    Numbers,
    Pairs,
    Side,
    Spool,
    TermVocabulary,
    Vocabularies,
    grown,
    joint,
    make_vocabulary,
    mixed,
    of_lengths,
    pairs_of,
    rendered,
    rows_of,
    sides_of,
)
from hierogram.tools.terms.reports import GAP, Departure, Rendering, Term, Terms

Reals = NDArray[np.float64]

_CELLS_BITS = 22
_ROWS = 1 << 20


class Sketch:
    """Counts of hashes in a table of fixed size, whose cells are shared: no count is too small."""

    def __init__(self, bits: int = _CELLS_BITS) -> None:
        self._shift = np.uint64(64 - bits)
        self._cells = np.zeros(1 << bits, np.uint32)

    def add(self, hashes: Hashes) -> None:
        """Count each of them once."""
        np.add.at(self._cells, hashes >> self._shift, 1)

    def may_reach(self, hashes: Hashes, count: int) -> Flags:
        """Return whether each may have been counted `count` times; False for none that has."""
        found: Flags = self._cells[hashes >> self._shift] >= count
        return found


class Tally:
    """Exact counts of hashes, each with `width` numbers that describe it: those that came with it first."""

    def __init__(self, width: int, rows: int = _ROWS) -> None:
        self._width = width
        self._rows = rows
        self._waiting: list[tuple[Hashes, Numbers, Numbers]] = []
        self._number = 0

    def add(self, hashes: Hashes, counts: Numbers, what: Numbers) -> None:
        """Add counts, int64[n] or int64[n, k]; `what` is int64[n, width]."""
        if not len(hashes):
            return
        self._waiting.append((hashes, counts.reshape(len(hashes), -1), what))
        self._number += len(hashes)
        if self._number > self._rows:
            kept = self._merge()
            # Twice as many, so that merging again costs no more than adding did.
            self._rows = max(self._rows, 2 * kept)

    def found(self) -> tuple[Hashes, Numbers, Numbers]:
        """Return hashes, ascending; their counts, int64[n, k]; what they are."""
        self._merge()
        if not self._waiting:
            return np.zeros(0, np.uint64), np.zeros((0, 1), np.int64), np.zeros((0, self._width), np.int64)
        return self._waiting[0]

    def _merge(self) -> int:
        if not self._waiting:
            return 0
        columns = [np.concatenate(column) for column in zip(*self._waiting, strict=True)]
        hashes, first, number = np.unique(columns[0].astype(np.uint64), return_index=True, return_inverse=True)
        counts = np.zeros((len(hashes), columns[1].shape[1]), np.int64)
        np.add.at(counts, number, columns[1])
        self._waiting = [(hashes, counts, columns[2][first])]
        self._number = len(hashes)
        return self._number


def places_among(sorted_hashes: Hashes, hashes: Hashes) -> Numbers:
    """Return the place of each hash among sorted ones; -1 where it is none of them."""
    if not len(sorted_hashes):
        return np.full(len(hashes), -1)
    places = np.minimum(np.searchsorted(sorted_hashes, hashes), len(sorted_hashes) - 1)
    return np.where(sorted_hashes[places] == hashes, places, -1)


class TermCandidates(NamedTuple):
    """Terms with their usual renderings, [n] each.

    `sources`, `targets`: hashes; `source_words`, `target_words`: int64[n, longest], -1 after the last word. Numbers of
    pairs: `both` have the term with this rendering, `with_source` the term, `with_target` the rendering, however it
    came there.
    """

    sources: Hashes
    targets: Hashes
    source_words: Numbers
    target_words: Numbers
    both: Numbers
    with_source: Numbers
    with_target: Numbers

    def at(self, rows: Numbers | Flags) -> "TermCandidates":
        """Return some of them."""
        return TermCandidates._make(column[rows] for column in self)


Passes = Callable[[], Iterable[Pairs]]
"""All pairs, from the first on each time that it is called."""


def count_candidates(parts: Passes, sketch: Sketch, words: Vocabularies, options: TermOptions) -> TermCandidates:
    """Count those that may be frequent, and how often their sides occur: the second and the third pass."""
    tally = Tally(2 + 2 * options.max_words)
    for pairs in parts():
        pair, sources, targets, source_words, target_words = _found(pairs, words, options)
        hashes = joint(sources, targets)
        kept = np.flatnonzero(sketch.may_reach(hashes, options.min_count))
        kept = kept[_first_ones(pair[kept], hashes[kept])]
        sides = np.stack((sources[kept], targets[kept])).view(np.int64).T
        what = np.concatenate((sides, source_words[kept], target_words[kept]), axis=1)
        tally.add(hashes[kept], np.ones(len(kept), np.int64), what)
    hashes, counts, what = tally.found()
    frequent = counts[:, 0] >= options.min_count
    return _usual(parts, hashes[frequent], what[frequent], words, options)


def _found(pairs: Pairs, words: Vocabularies, options: TermOptions) -> tuple[Numbers, Hashes, Hashes, Numbers, Numbers]:
    """Return phrase pairs that may be terms: the pair that each is in, both hashes, both sides' words."""
    longest = options.max_words
    source, target = sides_of(pairs, words, longest)
    linked = source.high[0] >= source.low[0]
    parts = []
    for length in range(1, longest + 1):
        begins = source.phrases(length)
        begins = begins[linked[begins] & linked[begins + length - 1]]
        begins, others, lengths = rendered(source, target, begins, length)
        fit = of_lengths(target.allowed, others, lengths) & (np.maximum(lengths, length) >= options.min_words)
        begins, others, lengths = begins[fit], others[fit], lengths[fit]
        parts.append(
            (
                source.pair[begins],
                source.hashes[length - 1][begins],
                of_lengths(target.hashes, others, lengths),
                rows_of(words[0].folded[source.words], begins, np.full(len(begins), length), longest),
                rows_of(words[1].folded[target.words], others, lengths, longest),
            )
        )
    pair, sources, targets, source_words, target_words = map(np.concatenate, zip(*parts, strict=True))
    return pair, sources, targets, source_words, target_words


def _first_ones(pair: Numbers, hashes: Hashes) -> Numbers:
    """Return where each hash is met first in each pair."""
    order = np.lexsort((hashes, pair))
    return np.sort(order[_new_ones(pair[order], hashes[order])])


def _new_ones(*columns: Numbers | Hashes) -> Flags:
    """Return whether each row of the columns is another one than that before it."""
    new = np.ones(len(columns[0]), np.bool_)
    new[1:] = np.logical_or.reduce([column[1:] != column[:-1] for column in columns])
    return new


def _usual(parts: Passes, hashes: Hashes, what: Numbers, words: Vocabularies, options: TermOptions) -> TermCandidates:
    """Return of each source the phrase pair that most pairs have; of two the one with the rarer target, then by words.

    Numbers of pairs are counted for it: of phrase pairs, by their hashes, and of their sources and targets.
    """
    longest = options.max_words
    sources, targets = (np.ascontiguousarray(what[:, k]).view(np.uint64) for k in (0, 1))
    wanted = np.unique(sources), np.unique(targets)
    both, with_source, with_target = (np.zeros(len(some), np.int64) for some in (hashes, *wanted))
    for pairs in parts() if len(hashes) else ():
        sides = sides_of(pairs, words, longest)
        _count_pairs(with_source, _met(sides[0], wanted[0]), len(pairs.ids))
        _count_pairs(with_target, _met(sides[1], wanted[1]), len(pairs.ids))
        _count_pairs(both, _met_pairs(*sides, hashes, wanted[0]), len(pairs.ids))
    of_source = places_among(wanted[0], sources)
    of_target = with_target[places_among(wanted[1], targets)]
    texts = what[:, 2:]
    order = np.lexsort((*texts.T[::-1], of_target, -both, of_source))
    chosen = order[_new_ones(of_source[order])]
    return TermCandidates(
        sources[chosen],
        targets[chosen],
        texts[chosen][:, :longest],
        texts[chosen][:, longest:],
        both[chosen],
        with_source[of_source[chosen]],
        of_target[chosen],
    )


Met = Iterator[tuple[Numbers, Numbers]]
"""Places of what is counted, and the pairs that it was met in."""


def _met(side: Side, wanted: Hashes) -> Met:
    for length in range(1, len(side.hashes) + 1):
        begins = side.phrases(length)
        places = places_among(wanted, side.hashes[length - 1][begins])
        yield places[places >= 0], side.pair[begins[places >= 0]]


def _met_pairs(source: Side, target: Side, wanted: Hashes, sources: Hashes) -> Met:
    for length in range(1, len(source.hashes) + 1):
        begins = source.phrases(length)
        begins = begins[places_among(sources, source.hashes[length - 1][begins]) >= 0]
        begins, others, lengths = rendered(source, target, begins, length)
        targets = of_lengths(target.hashes, others, lengths)
        places = places_among(wanted, joint(source.hashes[length - 1][begins], targets))
        yield places[places >= 0], source.pair[begins[places >= 0]]


def _count_pairs(counts: Numbers, met: Met, pairs: int) -> None:
    """Add 1 for each pair in which something was met, however often."""
    columns = [np.concatenate(column) for column in zip(*met, strict=True)]
    np.add.at(counts, np.unique(columns[0] * max(pairs, 1) + columns[1]) // max(pairs, 1), 1)


_INSIDE = 0.8
"""A phrase is left out where a longer term with it has so large a share of its pairs."""


Scores = tuple[Reals, Reals, Reals]
"""Scores, log-likelihood ratios and cohesions of terms, float64[n] each."""


def likelihood_ratio(both: Numbers, first: Numbers, second: Numbers, pairs: int) -> Reals:
    """Return 2 ln λ of the dependence of two things [Dunning 1993], natural, at least 0; 0 where they repel each other.

    `both` counts pairs with both, `first` and `second` those with each, of `pairs` in all.
    """
    cells = np.stack((both, first - both, second - both, pairs - first - second + both)).astype(np.float64)
    cells = np.maximum(cells, 0)
    expected = np.stack((first * second, first * (pairs - second), (pairs - first) * second,
                         (pairs - first) * (pairs - second))).astype(np.float64) / max(pairs, 1)  # fmt: skip
    with np.errstate(divide="ignore", invalid="ignore"):
        terms = np.where((cells > 0) & (expected > 0), cells * np.log(cells / expected), 0.0)
    ratio: Reals = np.where(cells[0] > expected[0], np.maximum(2 * terms.sum(axis=0), 0.0), 0.0)
    return ratio


def best_terms(
    found: TermCandidates, pairs: int, options: TermOptions, words: Vocabularies
) -> tuple[TermCandidates, Scores]:
    """Return the best terms of a number of pairs, those with the highest score first.

    The score of a term is its ratio by the cohesion of its less coherent side.
    """
    found = found.at((found.both >= options.min_count) & (found.both >= options.consistency * found.with_source))
    found = found.at(~_within_longer(found, words))
    ratios = likelihood_ratio(found.both, found.with_source, found.with_target, pairs)
    cohesions = np.minimum(
        cohesion(found.source_words, found.with_source, words[0]),
        cohesion(found.target_words, found.with_target, words[1]),
    )
    scores = ratios * np.maximum(cohesions, 0)
    order = np.lexsort((found.sources, -found.both, -scores))[: options.top]
    return found.at(order), (scores[order], ratios[order], cohesions[order])


def cohesion(words: Numbers, counts: Numbers, known: TermVocabulary) -> Reals:
    """Return the normalized pointwise mutual information of each phrase's first and last word [Bouma 2009].

    1 if neither is ever without the other, 0 if they meet as if by chance; 1 for single words. `counts` are the
    phrases' own.
    """
    lengths = (words >= 0).sum(axis=1)
    first = known.counts[words[:, 0]]
    last = known.counts[words[np.arange(len(words)), lengths - 1]]
    # As by chance, the first and the last word would meet at this distance so many times.
    total = float(known.counts[np.unique(known.folded)].sum())
    expected = first.astype(np.float64) * last / total
    information = np.log(np.maximum(counts, 1) / np.maximum(expected, 1e-9))
    most = np.log(total / np.maximum(counts, 1))
    found: Reals = np.where(lengths > 1, np.minimum(information / np.maximum(most, 1e-9), 1), 1.0)
    return found


def _within_longer(found: TermCandidates, words: Vocabularies) -> Flags:
    """Return whether each lies on both sides within a longer term that has most of its pairs."""
    order = np.argsort(found.sources)
    ordered = found.sources[order]
    target_parts = _parts(found.target_words, words[1])
    inside = np.zeros(len(ordered), np.bool_)
    for hashes, rows, whole in _parts(found.source_words, words[0]):
        if whole:
            continue
        places = places_among(ordered, hashes)
        shorter, longer = order[places[places >= 0]], rows[places >= 0]
        frequent = found.both[longer] >= _INSIDE * found.both[shorter]
        shorter, longer = shorter[frequent], longer[frequent]
        for others, other_rows, _ in target_parts:
            place = np.full(len(ordered), -1)
            place[other_rows] = np.arange(len(other_rows))
            there = place[longer] >= 0
            same = others[place[longer[there]]] == found.targets[shorter[there]]
            inside[shorter[there][same]] = True
    return inside


def _parts(words: Numbers, known: TermVocabulary) -> "list[tuple[Hashes, Numbers, bool]]":
    """Return all parts of phrases: by begin and length, their hashes, the phrases' rows, whether they are the whole."""
    lengths = (words >= 0).sum(axis=1)
    parts = []
    values = known.values[np.maximum(words, 0)]
    for begin in range(words.shape[1]):
        hashes = np.zeros(len(words), np.uint64)
        for length in range(1, words.shape[1] - begin + 1):
            column = values[:, begin + length - 1]
            hashes = column if length == 1 else grown(hashes, column)
            longer = np.flatnonzero(lengths >= begin + length)
            whole = longer[lengths[longer] == length] if begin == 0 else longer[:0]
            part = np.setdiff1d(longer, whole)
            parts += [(hashes[rows], rows, rows is whole) for rows in (part, whole) if len(rows)]
    return parts


_INSIDE_A_SENTENCE = 1 << 20
"""Weight of the case of a phrase that does not begin a sentence; that of one that does is 1."""
_RENDERINGS = 6
_EPOCH = date(1970, 1, 1)
_FIRST_STEP = np.uint64(0x9E3779B97F4A7C15)
_LAST_DAY = 1 << 30


class _Met(NamedTuple):
    """Terms where they occur: the term, its pair, place and length, its rendering's place and length (0: none)."""

    term: Numbers
    pair: Numbers
    begin: Numbers
    length: Numbers
    other: Numbers
    other_length: Numbers

    def at(self, rows: Numbers | Flags) -> "_Met":
        return _Met(*(column[rows] for column in self))


class Details:
    """Gathers what is reported of terms, from all pairs, some thousand at a time; up to `most` departures a term."""

    def __init__(self, terms: TermCandidates, words: Vocabularies, longest: int, most: int) -> None:
        self._terms = terms
        self._words = words
        self._longest = longest
        self._order = np.argsort(terms.sources)
        size = len(terms.sources)
        self._sources, self._renderings, self._corpora = Tally(1 + longest), Tally(1 + longest), Tally(2)
        self._first, self._last = np.full(size, _LAST_DAY), np.full(size, -1)
        self._room = np.full(size, most)
        self._departed: list[tuple[int, int, str, str, str]] = []

    def add(self, pairs: Pairs) -> None:
        """Take in what some pairs have of the terms."""
        source, target = sides_of(pairs, self._words, self._longest)
        met = self._met(source, target)
        if not len(met.term):
            return
        hashes = of_lengths(target.hashes, met.other, met.other_length)
        self._note(self._sources, met.term, source, met.begin, met.length)
        # Each rendering of a term counts once a pair.
        order = np.lexsort((hashes, met.term, met.pair))
        chosen = order[_new_ones(met.pair[order], met.term[order], hashes[order])]
        some = met.at(chosen[met.other_length[chosen] > 0])
        self._note(self._renderings, some.term, target, some.other, some.other_length)
        size = len(pairs.ids)
        met_once, first = np.unique(met.term * size + met.pair, return_index=True)
        once = met.at(first)
        days, corpora = pairs.days[once.pair], pairs.corpora[once.pair]
        np.minimum.at(self._first, once.term, days)
        np.maximum.at(self._last, once.term, days)
        self._corpora.add(
            joint(once.term.astype(np.uint64), corpora.astype(np.uint64)),
            np.ones(len(once.term), np.int64),
            np.stack((once.term, corpora), axis=1),
        )
        usual = (met.other_length > 0) & (hashes == self._terms.targets[met.term])
        apart = ~np.isin(met_once, met.term[usual] * size + met.pair[usual])
        self._note_departures(pairs, once.at(apart), target)

    def _met(self, source: Side, target: Side) -> _Met:
        parts = []
        for length in range(1, self._longest + 1):
            begins = source.phrases(length)
            places = places_among(self._terms.sources[self._order], source.hashes[length - 1][begins])
            begins, terms = begins[places >= 0], self._order[places[places >= 0]]
            with_one, others, lengths = rendered(source, target, begins, length)
            other, other_length = np.zeros((2, len(begins)), np.int64)
            places = np.searchsorted(begins, with_one)
            other[places], other_length[places] = others, lengths
            parts.append(_Met(terms, source.pair[begins], begins, np.full(len(begins), length), other, other_length))
        return _Met(*(np.concatenate(column) for column in zip(*parts, strict=True)))

    def _note(self, tally: Tally, terms: Numbers, side: Side, begins: Numbers, lengths: Numbers) -> None:
        """Count phrases of terms, by their words with their case."""
        rows = rows_of(side.words, begins, lengths, self._longest)
        hashes = np.zeros(len(rows), np.uint64)
        for column in rows.T:
            hashes = mixed(hashes * _FIRST_STEP + (column + 2).astype(np.uint64))
        weights = np.where(side.first[begins], 1, _INSIDE_A_SENTENCE)
        counts = np.stack((np.ones(len(terms), np.int64), weights), axis=1)
        tally.add(joint(terms.astype(np.uint64), hashes), counts, np.concatenate((terms[:, None], rows), axis=1))

    def _note_departures(self, pairs: Pairs, apart: _Met, target: Side) -> None:
        for row in np.lexsort((apart.begin, apart.term)).tolist():
            term, pair, begin, length = (int(c[row]) for c in (apart.term, apart.pair, apart.begin, apart.length))
            if self._room[term] == 0:
                continue
            self._room[term] -= 1
            reach = np.searchsorted(pairs.source_links, (begin, begin + length))
            linked = np.unique(pairs.target_links[reach[0] : reach[1]])
            runs = np.split(linked, np.flatnonzero(np.diff(linked) > 1) + 1)
            there = GAP.join(self._words[1].text(target.words[run]) for run in runs if len(run))
            self._departed.append((term, int(pairs.ids[pair]), there, *pairs.texts(pair, self._words)))

    def reported(self, scores: Scores, names: Mapping[int, str]) -> list[Term]:
        """Return the terms, with corpora by their `names`."""
        sources = _by_phrase(self._sources, self._words[0])
        renderings = _by_phrase(self._renderings, self._words[1])
        corpora: dict[int, dict[int, int]] = defaultdict(dict)
        _, counts, what = self._corpora.found()
        for (term, corpus), (number,) in zip(what.tolist(), counts.tolist(), strict=True):
            corpora[term][corpus] = number
        terms = self._terms
        found = []
        for k, (score, ratio, cohesive) in enumerate(zip(*scores, strict=True)):
            usual = self._words[1].text(terms.target_words[k]).lower()
            shown = sorted(renderings[k], key=lambda one: one.text.lower() != usual)[:_RENDERINGS]
            found.append(
                Term(
                    sources[k][0].text,
                    shown[0].text,
                    int(terms.both[k]),
                    int(terms.with_source[k]),
                    int(terms.with_target[k]),
                    round(float(terms.both[k] / terms.with_source[k]), 4),
                    round(float(score), 2),
                    round(float(ratio), 2),
                    round(float(cohesive), 4),
                    tuple(shown),
                    {names[corpus]: number for corpus, number in sorted(corpora[k].items())},
                    _EPOCH + timedelta(days=int(self._first[k])),
                    _EPOCH + timedelta(days=int(self._last[k])),
                )
            )
        return found

    def departures(self, snapshot: Snapshot, terms: Sequence[Term]) -> list[Departure]:
        """Return the pairs without the usual rendering of one of the terms, in their order."""
        places = snapshot.places([pair for _, pair, *_ in self._departed])
        return [
            Departure(
                terms[term].source,
                terms[term].target,
                there,
                pair,
                places[pair].external_id,
                places[pair].corpus,
                places[pair].origin,
                source,
                target,
            )
            for term, pair, there, source, target in sorted(self._departed, key=lambda one: one[:2])
        ]


def _by_phrase(tally: Tally, known: TermVocabulary) -> dict[int, list[Rendering]]:
    """Return by term its phrases, those of most pairs first, each in the case most frequent within sentences."""
    _, counts, what = tally.found()
    cases: dict[int, dict[tuple[int, ...], list[tuple[int, int, str]]]] = defaultdict(lambda: defaultdict(list))
    for (term, *words), (number, weight) in zip(what.tolist(), counts.tolist(), strict=True):
        folded = tuple(int(known.folded[word]) for word in words if word >= 0)
        cases[term][folded].append((weight, number, " ".join(known.tokens[word] for word in words if word >= 0)))
    found = {}
    for term, phrases in cases.items():
        shown = [
            Rendering(max(forms, key=lambda form: (form[0], form[2]))[2], sum(number for _, number, _ in forms))
            for forms in phrases.values()
        ]
        found[term] = sorted(shown, key=lambda phrase: (-phrase.pairs, phrase.text))
    return found


Report = Callable[[str, int, int], None]
"""Hears what is done, how many pairs have been through it, and how many there are."""


def extract_terms(store: Store, options: TermOptions, departures: int = 0, report: Report | None = None) -> Terms:
    """Return the best terms of a store's pairs, and up to `departures` pairs a term without its usual rendering.

    Raises `WrongKindError` for a store without pairs of two languages, `InputError` where there is no such corpus, and
    `NothingLearnedError` where no pair has links yet.
    """
    with store.snapshot() as snapshot, tempfile.TemporaryFile() as file:
        settings = snapshot.settings()
        if notation_of(settings.grammar).takes != PAIRS:
            raise WrongKindError(f"{store.url}: holds trees of one language: terms are found in pairs of two")
        view = InWords(settings.bpe_merges)
        words = (
            make_vocabulary(_word_counts(snapshot, SOURCE, view)),
            make_vocabulary(_word_counts(snapshot, TARGET, view)),
        )
        total = sum(snapshot.status().pairs.values())
        sketch, spool = Sketch(), Spool(file)
        for block in snapshot.pair_blocks(_corpus(snapshot, options.corpus), TERM_COLUMNS):
            pairs = pairs_of(_in_words(block, view), words)
            spool.add(pairs)
            pair, sources, targets, _, _ = _found(pairs, words, options)
            hashes = joint(sources, targets)
            sketch.add(hashes[_first_ones(pair, hashes)])
            if report:
                report("reading", spool.pairs, total)
        if not spool.pairs:
            raise NothingLearnedError(store.url)

        def again(doing: str = "counting") -> Iterator[Pairs]:
            return spool.read((lambda done: report(doing, done, spool.pairs)) if report else None)

        found = count_candidates(again, sketch, words, options)
        best, scores = best_terms(found, spool.pairs, options, words)
        details = Details(best, words, options.max_words, departures)
        for pairs in again("reporting"):
            details.add(pairs)
        terms = details.reported(scores, snapshot.corpus_names())
        return Terms(spool.pairs, tuple(terms), tuple(details.departures(snapshot, terms)), settings.languages)


def _word_counts(snapshot: Snapshot, side: str, view: InWords) -> Sequence[tuple[str, int]]:
    """Return the words of a side with their counts; where the store has parts of words, all pairs are read for them."""
    if not view.joins:
        return snapshot.word_counts(side)
    counts = Counter[str]()
    for _, (sources, targets, _) in snapshot.pair_blocks():
        for line in (sources if side == SOURCE else targets).split("\n"):
            counts.update(view.line(line).split(" "))
    return list(counts.items())


def _in_words(block: Block, view: InWords) -> Block:
    """Return a block of `TERM_COLUMNS` whose texts are words, and whose links are links of words."""
    if not view.joins:
        return block
    number, (*others, sources, targets, alignments) = block
    lines = zip(*(column.split("\n") for column in (sources, targets, alignments)), strict=True)
    pairs = [view.pair(*line)[:3] for line in lines]
    return number, [*others, *("\n".join(column) for column in zip(*pairs, strict=True))]


def _corpus(snapshot: Snapshot, name: str | None) -> int | None:
    found = None if name is None else snapshot.corpus_id(name)
    if name is not None and found is None:
        known = ", ".join(sorted(snapshot.status().corpora)) or "none"
        raise InputError(f"there is no corpus {name!r} in the store; there are: {known}")
    return found
