"""What is told of the terms that were chosen: renderings, case, corpora, days, and the pairs that depart."""

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import date, timedelta

import numpy as np

from hierogram.daemon.terms.candidates import Candidates, Vocabularies
from hierogram.daemon.terms.counting import Tally, places_among
from hierogram.daemon.terms.pairs import Pairs
from hierogram.daemon.terms.phrases import Side, joint, of_lengths, rendered, rows_of, sides_of
from hierogram.daemon.terms.records import Rendering
from hierogram.daemon.terms.vocabulary import Flags, Hashes, Numbers, Vocabulary, mixed

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

    def __init__(self, terms: Candidates, words: Vocabularies, longest: int, most: int) -> None:
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


def _by_phrase(tally: Tally, known: Vocabulary) -> dict[int, list[Rendering]]:
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
