"""Pairs aligned again because people have fixed or forbidden links of theirs, or have taken that back."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from hierogram.daemon.alignment.aligning import Beside, align_sides, both_ways, incremental_options, options_for
from hierogram.daemon.alignment.incremental import change_of_counts
from hierogram.daemon.alignment.links.prior_counts import enter_counts, prior_counts_of
from hierogram.daemon.alignment.links.stored import Links, Texts, read_blobs
from hierogram.daemon.alignment.requests import Request
from hierogram.daemon.learning.kinds.pairs import read_links
from hierogram.daemon.learning.lease import holding_lease
from hierogram.daemon.learning.rebuilding import Rebuilt
from hierogram.samplers.alignment.prior_counts import without
from hierogram.samplers.alignment.symmetrization import LinkList
from hierogram.samplers.grammar.known_links import KnownLinks
from hierogram.storage.records import AlignerChange, Correction, LinkRow, PairAlignment, PairLinks, PairRow
from hierogram.storage.store import Store

PAIRS_AT_ONCE = 200
_SEED_STEP = 1_000_003


@dataclass(frozen=True, slots=True)
class _Kept:
    """Alignments that keep to what people say: lines by pair, and both directions' links of the rows that have some."""

    lines: dict[int, str]
    rows: list[LinkRow]
    links: Links | None


def correct(store: Store, pending: Sequence[Correction], threads: int | None = None) -> list[Rebuilt]:
    """Make the alignments of these pairs keep to what people say of their links now.

    Pairs that came with an alignment get it back but for that; the others are aligned again by the counts of all other
    pairs. Where an alignment changes, the derivation begins anew in the same transaction, with other random streams; a
    learner that holds the store's rules in memory has to change its table as the results say.
    """
    done = []
    for given in (True, False):
        some = [correction for correction in pending if (correction.given is not None) == given]
        if some:
            ids = [correction.id for correction in some]
            known = store.human_links(ids)
            linked = store.links_by_id(ids)
            kept = _kept_given(some, linked, known) if given else _aligned(store, linked, known, threads)
            rebuilt = _commit(store, some, kept)
            done += [rebuilt] if rebuilt is not None else []
    return done


def correct_requested(store: Store, threads: int | None = None) -> int:
    """See to all corrections of a store that no learner holds; how many pairs there were.

    Raises `StoreHeldError` where another process writes the grammar.
    """
    number = 0
    if not store.pending_corrections(1):
        return number
    with holding_lease(store, "hierogram links"):
        while pending := store.pending_corrections(PAIRS_AT_ONCE):
            correct(store, pending, threads)
            number += len(pending)
    return number


def _kept_given(some: Sequence[Correction], linked: list[LinkRow], known: Mapping[int, KnownLinks]) -> _Kept:
    lines = {
        correction.id: _line(known.get(correction.id, KnownLinks()), correction.given or "") for correction in some
    }
    if not linked:
        return _Kept(lines, [], None)
    texts = Texts.of(linked)
    kept = LinkList(*read_links([lines[row.id] for row in linked]))
    return _Kept(lines, linked, both_ways(kept, texts.source, texts.target))


def _line(known: KnownLinks, given: str) -> str:
    links = [(int(s), int(t)) for s, _, t in (link.partition("-") for link in given.split())]
    return " ".join(f"{s}-{t}" for s, t in known.kept(links))


def _aligned(store: Store, rows: list[LinkRow], known: Mapping[int, KnownLinks], threads: int | None) -> _Kept:
    """The pairs aligned anew, from nothing but the counts of all others."""
    texts = Texts.of(rows)
    own = texts.counts(read_blobs(rows), np.ones(len(rows), np.int64))
    counts = store.aligner_counts(texts.source.vocabulary, texts.target.vocabulary)
    prior = prior_counts_of(counts, texts.source, texts.target, store.vocabulary_sizes())
    others = without(prior[0], own[0]), without(prior[1], own[1])
    settings = store.settings()
    seed = (settings.seed * _SEED_STEP + rows[0].id) * _SEED_STEP + (rows[0].sweep or 0)
    request = Request(settings.aligner, seed=seed)
    words = min(len(texts.source.words), len(texts.target.words))
    if min(int(one.jumps.sum()) for one in others) < words:
        options = options_for(request, len(rows))
    else:
        options = incremental_options(len(rows), request)
    places = {place: known[row.id] for place, row in enumerate(rows) if row.id in known}
    found = align_sides(texts.source, texts.target, options, threads, None, Beside(others, known=places))
    lines = {row.id: line for row, line in zip(rows, found.aligned.lines(), strict=True)}
    return _Kept(lines, rows, (found.forward, found.backward))


def _commit(store: Store, some: Sequence[Correction], kept: _Kept) -> Rebuilt | None:
    pairs: list[PairRow] = store.pairs_by_id([correction.id for correction in some])
    given = {correction.id for correction in some if correction.given is not None}
    changed = {row.id: kept.lines[row.id] for row in pairs if row.alignment != kept.lines[row.id]}
    change = AlignerChange()
    change.corrected = [(correction.id, correction.asked) for correction in some]
    change.alignments = [PairAlignment(*item) for item in changed.items() if item[0] not in given]
    change.given = [PairAlignment(*item) for item in changed.items() if item[0] in given]
    if kept.links is not None:
        texts = Texts.of(kept.rows)
        ones = np.ones(len(kept.rows), np.int64)
        own, new = texts.counts(read_blobs(kept.rows), ones), texts.counts(kept.links, ones)
        difference = change_of_counts(new[0], own[0]), change_of_counts(new[1], own[1])
        enter_counts(change, difference, texts.source, texts.target)
        change.links = [
            PairLinks(row.id, *blobs, (row.sweep or 0) + (row.id not in given), row.sweep)
            for row, blobs in zip(kept.rows, texts.blobs(kept.links), strict=True)
        ]
    derived = [row for row in pairs if row.current is not None and row.id in changed]
    if not derived:
        store.align(change)
        return None
    rebuilt = Rebuilt.of(derived, changed, store.settings())
    store.align(change, rebuilt.updates(), rebuilt.deltas())
    return rebuilt
