"""Terms of a store, from its pairs and their links, in four passes in bounded memory.

Three passes count candidates. Of these, terms are chosen by log-likelihood ratios [Dunning 1993], consistency, and by
phrases within longer ones. The fourth gathers what is reported of them: case, renderings, corpora, days, departures.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import date, timedelta

import numpy as np
from numpy.typing import NDArray

from hierogram.daemon.exceptions import InputError, NothingLearnedError, WrongKindError
from hierogram.daemon.terms.candidates import (
    Sketch,
    Tally,
    TermCandidates,
    Vocabularies,
    count_candidates,
    places_among,
    sketch_of,
)
from hierogram.daemon.terms.options import TermOptions
from hierogram.daemon.terms.phrases import (
    Flags,
    Hashes,
    Numbers,
    Pairs,
    Side,
    Spool,
    TermVocabulary,
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
from hierogram.daemon.terms.reports import Departure, Rendering, Term, Terms
from hierogram.samplers.grammar.kinds import PAIRS, SOURCE, TARGET, notation_of
from hierogram.storage.exports.snapshot import Snapshot
from hierogram.storage.store import Store

Reals = NDArray[np.float64]

_INSIDE = 0.8
"""A phrase is left out where a longer term with it has so large a share of its pairs."""


@dataclass(frozen=True, slots=True)
class Scored:
    """Terms, best first, with their scores, log-likelihood ratios and cohesions, float64[n] each."""

    terms: TermCandidates
    scores: Reals
    ratios: Reals
    cohesions: Reals


def likelihood_ratio(both: Numbers, first: Numbers, second: Numbers, pairs: int) -> Reals:
    """2 ln λ of the dependence of two things [Dunning 1993], natural, at least 0; 0 where they repel each other.

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
    found: TermCandidates, pairs: int, options: TermOptions, source: TermVocabulary, target: TermVocabulary
) -> Scored:
    """The best terms of so many pairs, those with the highest score first.

    The score of a term is its ratio by the cohesion of its less coherent side.
    """
    found = found.at((found.both >= options.min_count) & (found.both >= options.consistency * found.with_source))
    found = found.at(~_within_longer(found, source, target))
    ratios = likelihood_ratio(found.both, found.with_source, found.with_target, pairs)
    cohesions = np.minimum(
        cohesion(found.source_words, found.with_source, source), cohesion(found.target_words, found.with_target, target)
    )
    scores = ratios * np.maximum(cohesions, 0)
    order = np.lexsort((found.sources, -found.both, -scores))[: options.top]
    return Scored(found.at(order), scores[order], ratios[order], cohesions[order])


def cohesion(words: Numbers, counts: Numbers, known: TermVocabulary) -> Reals:
    """Normalized pointwise mutual information of each phrase's first and last word [Bouma 2009]: 1 if neither is ever
    without the other, 0 if they meet as if by chance. 1 for single words.

    `counts` are the phrases' own.
    """
    lengths = (words >= 0).sum(axis=1)
    first = known.counts[words[:, 0]]
    last = known.counts[words[np.arange(len(words)), lengths - 1]]
    # As by chance, the first and the last word would meet at this distance so many times.
    total = float(known.total())
    expected = first.astype(np.float64) * last / total
    information = np.log(np.maximum(counts, 1) / np.maximum(expected, 1e-9))
    most = np.log(total / np.maximum(counts, 1))
    found: Reals = np.where(lengths > 1, np.minimum(information / np.maximum(most, 1e-9), 1), 1.0)
    return found


def _within_longer(found: TermCandidates, source: TermVocabulary, target: TermVocabulary) -> Flags:
    """Whether each lies on both sides within a longer term that has most of its pairs."""
    order = np.argsort(found.sources)
    ordered = found.sources[order]
    target_parts = list(_parts(found.target_words, target))
    inside = np.zeros(len(found), np.bool_)
    for hashes, rows, whole in _parts(found.source_words, source):
        if whole:
            continue
        places = places_among(ordered, hashes)
        shorter, longer = order[places[places >= 0]], rows[places >= 0]
        frequent = found.both[longer] >= _INSIDE * found.both[shorter]
        shorter, longer = shorter[frequent], longer[frequent]
        for others, other_rows, _ in target_parts:
            place = np.full(len(found), -1)
            place[other_rows] = np.arange(len(other_rows))
            there = place[longer] >= 0
            same = others[place[longer[there]]] == found.targets[shorter[there]]
            inside[shorter[there][same]] = True
    return inside


def _parts(words: Numbers, known: TermVocabulary) -> "list[tuple[Hashes, Numbers, bool]]":
    """All parts of phrases: by begin and length, their hashes, the phrases' rows, whether they are all of these."""
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
"""What the case of a phrase counts that does not begin a sentence; the one of a phrase that does counts 1."""
_RENDERINGS = 6
_GAP = " … "
_EPOCH = date(1970, 1, 1)
_FIRST_STEP = np.uint64(0x9E3779B97F4A7C15)
_LAST_DAY = 1 << 30


@dataclass(frozen=True, slots=True)
class Departed:
    """A pair without the usual rendering of a term (its number): what the term's words are linked to, both texts."""

    term: int
    pair: int
    rendering: str
    source: str
    target: str


@dataclass(frozen=True, slots=True)
class Detail:
    """What is told of a term: both sides with their case, other renderings, corpora by id, first and last day."""

    source: str
    renderings: tuple[Rendering, ...]
    corpora: dict[int, int]
    first: date
    last: date


@dataclass(frozen=True, slots=True)
class _Met:
    """Terms where they occur: the term, its pair, place and length, its rendering's place and length (0: none)."""

    term: Numbers
    pair: Numbers
    begin: Numbers
    length: Numbers
    other: Numbers
    other_length: Numbers

    def at(self, rows: Numbers | Flags) -> "_Met":
        return _Met(self.term[rows], self.pair[rows], self.begin[rows], self.length[rows], self.other[rows],
                    self.other_length[rows])  # fmt: skip


class Details:
    """Gathers what is told of terms, from all pairs, some thousand at a time; up to `most` departures a term."""

    def __init__(self, terms: TermCandidates, words: Vocabularies, longest: int, most: int) -> None:
        self._terms = terms
        self._words = words
        self._longest = longest
        self._order = np.argsort(terms.sources)
        self._sources, self._renderings, self._corpora = Tally(1 + longest), Tally(1 + longest), Tally(2)
        self._first, self._last = np.full(len(terms), _LAST_DAY), np.full(len(terms), -1)
        self._room = np.full(len(terms), most)
        self.departed: list[Departed] = []

    def add(self, pairs: Pairs) -> None:
        """Takes in what some pairs say of the terms."""
        source, target = sides_of(pairs, self._words.source, self._words.target, self._longest)
        met = self._met(source, target)
        if not len(met.term):
            return
        hashes = of_lengths(target.hashes, met.other, met.other_length)
        self._note_renderings(met, hashes, target)
        rows = rows_of(source.words, met.begin, met.length, self._longest)
        self._note(self._sources, met.term, rows, _weights(source.first[met.begin]))
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
            some = rendered(source, target, begins, length)
            other, other_length = np.zeros((2, len(begins)), np.int64)
            with_one = np.searchsorted(begins, some.begins)
            other[with_one], other_length[with_one] = some.others, some.lengths
            parts.append(_Met(terms, source.pair[begins], begins, np.full(len(begins), length), other, other_length))
        columns = ((p.term, p.pair, p.begin, p.length, p.other, p.other_length) for p in parts)
        return _Met(*(np.concatenate(column) for column in zip(*columns, strict=True)))

    def _note_renderings(self, met: _Met, hashes: Hashes, target: Side) -> None:
        """Counts each rendering of a term once a pair."""
        order = np.lexsort((hashes, met.term, met.pair))
        keys = np.stack((met.pair[order], met.term[order], hashes[order].view(np.int64)))
        new = np.ones(len(order), np.bool_)
        new[1:] = (keys[:, 1:] != keys[:, :-1]).any(axis=0)
        chosen = order[new]
        some = met.at(chosen[met.other_length[chosen] > 0])
        rows = rows_of(target.words, some.other, some.other_length, self._longest)
        self._note(self._renderings, some.term, rows, _weights(target.first[some.other]))

    def _note(self, tally: Tally, terms: Numbers, rows: Numbers, weights: Numbers) -> None:
        counts = np.stack((np.ones(len(terms), np.int64), weights), axis=1)
        hashes = joint(terms.astype(np.uint64), _hashes_of_rows(rows))
        tally.add(hashes, counts, np.concatenate((terms[:, None], rows), axis=1))

    def _note_departures(self, pairs: Pairs, apart: _Met, target: Side) -> None:
        for row in np.lexsort((apart.begin, apart.term)).tolist():
            term, pair, begin, length = (int(c[row]) for c in (apart.term, apart.pair, apart.begin, apart.length))
            if self._room[term] == 0:
                continue
            self._room[term] -= 1
            reach = np.searchsorted(pairs.source_links, (begin, begin + length))
            linked = np.unique(pairs.target_links[reach[0] : reach[1]])
            runs = np.split(linked, np.flatnonzero(np.diff(linked) > 1) + 1)
            said = _GAP.join(self._words.target.text(target.words[run].tolist()) for run in runs if len(run))
            texts = pairs.source_text(pair, self._words.source), pairs.target_text(pair, self._words.target)
            self.departed.append(Departed(term, int(pairs.ids[pair]), said, *texts))

    def found(self) -> list[Detail]:
        """What was gathered, term by term."""
        sources = _by_phrase(self._sources, self._words.source)
        renderings = _by_phrase(self._renderings, self._words.target)
        corpora: dict[int, dict[int, int]] = defaultdict(dict)
        _, counts, what = self._corpora.found()
        for (term, corpus), (number,) in zip(what.tolist(), counts.tolist(), strict=True):
            corpora[term][corpus] = number
        return [
            Detail(
                sources[term][0].text,
                _usual_first(renderings[term], self._words.target.text(self._terms.target_words[term].tolist())),
                dict(sorted(corpora[term].items())),
                _EPOCH + timedelta(days=int(self._first[term])),
                _EPOCH + timedelta(days=int(self._last[term])),
            )
            for term in range(len(self._terms))
        ]


def _weights(first: Flags) -> Numbers:
    return np.where(first, 1, _INSIDE_A_SENTENCE)


def _hashes_of_rows(rows: Numbers) -> Hashes:
    """Hashes of words with their case."""
    found = np.zeros(len(rows), np.uint64)
    for column in rows.T:
        found = mixed(found * _FIRST_STEP + (column + 2).astype(np.uint64))
    return found


def _by_phrase(tally: Tally, known: TermVocabulary) -> dict[int, list[Rendering]]:
    """By term its phrases, those of most pairs first, each in the case that it has most often within sentences."""
    _, counts, what = tally.found()
    cases: dict[int, dict[tuple[int, ...], list[tuple[int, int, str]]]] = defaultdict(lambda: defaultdict(list))
    for (term, *words), (number, weight) in zip(what.tolist(), counts.tolist(), strict=True):
        folded = tuple(int(known.folded[word]) for word in words if word >= 0)
        cases[term][folded].append((weight, number, known.text(words)))
    found = {}
    for term, phrases in cases.items():
        shown = [
            Rendering(max(forms, key=lambda form: (form[0], form[2]))[2], sum(number for _, number, _ in forms))
            for forms in phrases.values()
        ]
        found[term] = sorted(shown, key=lambda phrase: (-phrase.pairs, phrase.text))
    return found


def _usual_first(found: Iterable[Rendering], usual: str) -> tuple[Rendering, ...]:
    """The usual rendering, and the most frequent ones beside it."""
    lowered = usual.lower()
    ordered = sorted(found, key=lambda one: one.text.lower() != lowered)
    return tuple(ordered[:_RENDERINGS])


Report = Callable[[str, int, int], None]
"""Hears what is done, and how many of how many pairs have been through it."""


def extract_terms(store: Store, options: TermOptions, departures: int = 0, report: Report | None = None) -> Terms:
    """The best terms of a store's pairs, and up to so many pairs a term that depart from its usual rendering.

    Raises `WrongKindError` for a store without pairs of two languages, `InputError` where there is no such corpus, and
    `NothingLearnedError` where no pair has links yet.
    """
    with store.snapshot() as snapshot, Spool() as spool:
        settings = snapshot.settings()
        if notation_of(settings.grammar).takes != PAIRS:
            raise WrongKindError(f"{store.url}: holds trees of one language: terms are found in pairs of two")
        words = Vocabularies(
            make_vocabulary(snapshot.word_counts(SOURCE), options.common),
            make_vocabulary(snapshot.word_counts(TARGET), options.common),
        )
        total = sum(snapshot.status().pairs.values())
        sketch = Sketch()
        for block in snapshot.dated_pair_blocks(_corpus(snapshot, options.corpus)):
            pairs = pairs_of(block, words.source, words.target)
            spool.add(pairs)
            sketch_of(sketch, pairs, words, options)
            if report:
                report("reading", spool.pairs, total)
        if not spool.pairs:
            raise NothingLearnedError(store.url)

        def again(doing: str = "counting") -> Iterator[Pairs]:
            return spool.read((lambda done: report(doing, done, spool.pairs)) if report else None)

        found = count_candidates(again, sketch, words, options)
        scored = best_terms(found, spool.pairs, options, words.source, words.target)
        details = Details(scored.terms, words, options.max_words, departures)
        for pairs in again("telling"):
            details.add(pairs)
        told = details.found()
        return Terms(
            spool.pairs,
            tuple(_terms(snapshot, scored, told)),
            tuple(_departures(snapshot, details.departed, told)),
            settings.languages,
        )


def _corpus(snapshot: Snapshot, name: str | None) -> int | None:
    if name is None:
        return None
    found = snapshot.corpus_id(name)
    if found is None:
        known = ", ".join(sorted(snapshot.status().corpora)) or "none"
        raise InputError(f"there is no corpus {name!r} in the store; there are: {known}")
    return found


def _terms(snapshot: Snapshot, scored: Scored, told: list[Detail]) -> Iterator[Term]:
    names = snapshot.corpus_names()
    terms = scored.terms
    for k, detail in enumerate(told):
        yield Term(
            detail.source,
            detail.renderings[0].text,
            int(terms.both[k]),
            int(terms.with_source[k]),
            int(terms.with_target[k]),
            round(float(terms.both[k] / terms.with_source[k]), 4),
            round(float(scored.scores[k]), 2),
            round(float(scored.ratios[k]), 2),
            round(float(scored.cohesions[k]), 4),
            detail.renderings,
            {names[corpus]: number for corpus, number in detail.corpora.items()},
            detail.first,
            detail.last,
        )


def _departures(snapshot: Snapshot, departed: list[Departed], told: list[Detail]) -> Iterator[Departure]:
    places = snapshot.places([one.pair for one in departed])
    for one in sorted(departed, key=lambda one: (one.term, one.pair)):
        detail, place = told[one.term], places[one.pair]
        yield Departure(
            detail.source,
            detail.renderings[0].text,
            one.rendering,
            one.pair,
            place.external_id,
            place.corpus,
            place.origin,
            one.source,
            one.target,
        )
