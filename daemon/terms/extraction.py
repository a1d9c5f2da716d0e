"""Terms of a store, from its pairs and their links, in four passes in bounded memory."""

from collections.abc import Callable, Iterator

from hierogram.daemon.exceptions import InputError, NothingLearnedError, WrongKindError
from hierogram.daemon.terms.candidates import Vocabularies, count_candidates, sketch_of
from hierogram.daemon.terms.counting import Sketch
from hierogram.daemon.terms.details import Departed, Detail, Details
from hierogram.daemon.terms.options import TermOptions
from hierogram.daemon.terms.pairs import Pairs, Spool, pairs_of
from hierogram.daemon.terms.records import Departure, Term, Terms
from hierogram.daemon.terms.scoring import Scored, best_terms
from hierogram.daemon.terms.vocabulary import make_vocabulary
from hierogram.samplers.grammar.kinds import PAIRS, SOURCE, TARGET, notation_of
from hierogram.storage.exports.snapshot import Snapshot
from hierogram.storage.store import Store

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
