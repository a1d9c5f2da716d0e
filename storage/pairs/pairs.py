"""Stored sentence pairs: queries, scores, damaged pairs, withdrawals, and the treebank settings."""

import json
from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from itertools import chain
from typing import Any

from sqlalchemy import ColumnElement, Connection, LargeBinary, Select, cast, func, select

from hierogram.storage.database.transactions import (
    StoreAccess,
    WriteTransaction,
    now,
    read_grammar_kind,
    read_state,
    rows_with,
    staged_scores,
    upsert,
)
from hierogram.storage.events.feed import append
from hierogram.storage.exceptions import StoreError
from hierogram.storage.options import MAX_NUMBER
from hierogram.storage.pairs.pair_index import unindex_pairs
from hierogram.storage.pairs.vocabulary import count_pair_words, count_words, find_words
from hierogram.storage.records.operations import PAIRS_DAMAGED, NewEvent
from hierogram.storage.records.pairs import (
    UNSETTLED,
    DamagedPair,
    LagRow,
    Link,
    Misfit,
    PairRecord,
    PairRow,
    PairScore,
    ScoreRow,
)
from hierogram.storage.schema.tables import (
    corpora,
    damaged_pairs,
    derivations,
    ingest_batches,
    pair_positions,
    pair_scores,
    schedule_restarts,
    sentence_pairs,
    settings,
    withdrawals,
)

_TREEBANK = "treebank"
_STAGED_PAIRS = "FROM staged_ids AS s JOIN sentence_pairs ON sentence_pairs.id = s.id"


class StoredPairs(StoreAccess):
    """Sentence pairs, their scores, damaged pairs, requests to withdraw pairs, and the treebank settings."""

    def pairs(
        self, after_id: int = 0, limit: int | None = None, states: Sequence[str] | None = None, undamaged: bool = False
    ) -> list[PairRow]:
        """Return pairs in `states` with id > `after_id`, in id order. `undamaged` omits damaged pairs."""
        with self._reading() as connection:
            ordered = pair_rows().where(sentence_pairs.c.id > after_id).order_by(sentence_pairs.c.id).limit(limit)
            if undamaged:
                ordered = ordered.where(is_undamaged(sentence_pairs.c.id))
            # Query each state separately, because the index has id order only within a state.
            of_states = [ordered.where(sentence_pairs.c.state == state) for state in dict.fromkeys(states or ())]
            queries = [ordered] if states is None else of_states
            return sorted(row for query in queries for row in map(PairRow._make, connection.execute(query)))[:limit]

    def pairs_by_id(self, ids: Sequence[int]) -> list[PairRow]:
        """Return the pairs with the given ids, in id order. Unknown ids are skipped."""
        with self._reading() as connection:
            return pairs_by_id(connection, ids)

    def find_pair(self, pair_id: int) -> PairRecord | None:
        """Return a pair with its corpus name, or None if it does not exist."""
        with self._reading() as connection:
            return find_pair(connection, pair_id)

    def stalest_pairs(self, limit: int) -> list[PairRow]:
        """Return up to `limit` settled undamaged pairs, least recently sampled first."""
        with self._reading() as connection:
            # Do not compare with "settled", because SQLite would then use the index by state and sort almost all pairs.
            pair, positions = sentence_pairs.c, pair_positions.c
            settled = pair_rows().join(pair_positions, positions.pair_id == pair.id)
            settled = settled.where(pair.state.not_in(UNSETTLED), is_undamaged(pair.id))
            rows = connection.execute(settled.order_by(positions.position, positions.pair_id).limit(limit))
            return list(map(PairRow._make, rows))

    def count_pairs(self, states: Sequence[str] | None = None) -> int:
        """Return the number of pairs, only in `states` if given."""
        with self._reading() as connection:
            by_state = read_state(connection).pairs()
            return sum(by_state[state] for state in (by_state if states is None else set(states)))

    def lag(self) -> LagRow:
        """Return the numbers of unsettled undamaged pairs, and the age of the oldest of these pairs."""
        with self._reading() as connection:
            totals, pair = read_state(connection).pairs(), sentence_pairs.c
            damaged_ids = connection.scalars(select(damaged_pairs.c.pair_id))
            damaged = Counter(row.state for row in rows_with(connection, select(pair.state), pair.id, damaged_ids))
            oldest = [
                added_at
                for state in UNSETTLED
                for added_at in connection.scalars(
                    select(pair.added_at).where(pair.state == state, is_undamaged(pair.id)).order_by(pair.id).limit(1)
                )
            ]
            age = max((now() - min(oldest)).total_seconds(), 0.0) if oldest else None
            states = {state: max(totals[state] - damaged[state], 0) for state in UNSETTLED}
            return LagRow(sum(states.values()), age, states)

    def save_scores(self, rows: Sequence[ScoreRow]) -> None:
        """Insert or replace scores. Scores of deleted pairs are ignored."""
        with self._writing() as transaction:
            moment = transaction.loader.moment
            # Keep only the last score of each pair, because a statement cannot update a row twice.
            by_pair = {row.pair_id: _score_values(row, moment(row.scored_at)) for row in rows}
            transaction.loader.stage(staged_scores, (by_pair[pair_id] for pair_id in sorted(by_pair)))
            stored = "SELECT s.* FROM staged_scores AS s JOIN sentence_pairs AS p ON p.id = s.pair_id WHERE true"
            transaction.execute(upsert(pair_scores, stored))

    def scores(self, after_id: int = 0, limit: int = 1_000) -> list[ScoreRow]:
        """Return up to `limit` stored scores of pairs with id > `after_id`, in id order."""
        with self._reading() as connection:
            scored = select(pair_scores).where(pair_scores.c.pair_id > after_id).order_by(pair_scores.c.pair_id)
            return [_make_score(*row) for row in connection.execute(scored.limit(limit))]

    def scores_by_id(self, ids: Collection[int]) -> list[ScoreRow]:
        """Return the stored scores of the given pairs, in id order."""
        with self._reading() as connection:
            rows = rows_with(connection, select(pair_scores), pair_scores.c.pair_id, ids)
            return [_make_score(*row) for row in rows]

    def vocabulary_sizes(self) -> tuple[int, int]:
        """Return the numbers of distinct source and target words."""
        with self._reading() as connection:
            state = read_state(connection)
            return state.source_types, state.target_types

    def word_counts(self, words: Iterable[str]) -> dict[str, dict[str, int]]:
        """Return the counts of words by side, then by word. Words that are not in the vocabulary are omitted."""
        with self._reading() as connection:
            found = find_words(connection, words)
        return {side: {token: word.count for token, word in of_side.items()} for side, of_side in found.items()}

    def pair_texts(self, after_id: int, limit: int) -> list[tuple[int, str, str]]:
        """Return (id, source, target) of up to `limit` pairs with id > `after_id`, in id order."""
        pair = sentence_pairs.c
        statement = select(pair.id, pair.source, pair.target).where(pair.id > after_id).order_by(pair.id).limit(limit)
        with self._reading() as connection:
            return [(row.id, row.source, row.target) for row in connection.execute(statement)]

    def treebank(self) -> dict[str, object] | None:
        """Return the tree transformations and known words of a tree grammar, or None before the first tree."""
        with self._reading() as connection:
            value = connection.scalar(select(settings.c.value).where(settings.c.name == _TREEBANK))
            return None if value is None else json.loads(value)

    def fix_treebank(self, treebank: dict[str, object]) -> None:
        """Store the treebank settings unless they are already stored."""
        with self._writing() as transaction:
            value = json.dumps(treebank, ensure_ascii=False)
            transaction.execute(upsert(settings, "VALUES (:name, :value)", {}), name=_TREEBANK, value=value)

    def record_damaged(self, pairs: Sequence[DamagedPair]) -> list[DamagedPair]:
        """Record damaged pairs, to exclude them from sampling. Returns the newly recorded pairs."""
        with self._writing() as transaction:
            transaction.stage_ids({pair.id for pair in pairs})
            is_new = "NOT EXISTS (SELECT 1 FROM damaged_pairs WHERE pair_id = s.id)"
            new_ids = set(transaction.execute(f"SELECT s.id {_STAGED_PAIRS} WHERE {is_new}").scalars())
            added = [pair for pair in pairs if pair.id in new_ids]
            moment = transaction.loader.moment()
            transaction.loader.insert(damaged_pairs, [(*pair, moment) for pair in sorted(added)])
            if added:
                first = min(added)
                detail = {"pair": first.id, "reason": first.reason}
                append(transaction, [NewEvent(PAIRS_DAMAGED, count=len(added), detail=detail)])
            return added

    def damaged_pairs(self) -> list[DamagedPair]:
        """Return the recorded damaged pairs, ordered by id."""
        with self._reading() as connection:
            query = select(damaged_pairs.c.pair_id, damaged_pairs.c.reason).order_by(damaged_pairs.c.pair_id)
            return [DamagedPair(*row) for row in connection.execute(query)]

    def request_withdrawals(self, pair_ids: Sequence[int]) -> list[int]:
        """Ask the holder of the lease to withdraw pairs. Returns the sorted ids that are stored."""
        with self._writing() as transaction:
            return _request(transaction, pair_ids)

    def pending_withdrawals(self, limit: int) -> list[int]:
        """Return up to `limit` ids of undamaged pairs with a pending withdrawal, sorted."""
        with self._reading() as connection:
            pending = select(withdrawals.c.pair_id).where(
                withdrawals.c.done_at.is_(None), is_undamaged(withdrawals.c.pair_id)
            )
            return list(connection.scalars(pending.order_by(withdrawals.c.pair_id).limit(limit)))

    def select_pairs(
        self, *, corpus: str | None = None, origin: str | None = None, external_ids: Sequence[str] = ()
    ) -> list[int]:
        """Return the sorted ids of the pairs that satisfy all given conditions."""
        with self._reading() as connection:
            pair = sentence_pairs.c
            query = select(pair.id).order_by(pair.id)
            if corpus is not None:
                query = query.where(pair.corpus_id.in_(select(corpora.c.id).where(corpora.c.name == corpus)))
            if origin is not None:
                query = query.where(
                    pair.batch_id.in_(select(ingest_batches.c.id).where(ingest_batches.c.origin == origin))
                )
            if external_ids:
                query = query.where(pair.external_id.in_(external_ids))
            return list(connection.scalars(query))


def pair_rows() -> Select[tuple[object, ...]]:
    """Return a SELECT of the fields of `PairRow`, in order."""
    pair = sentence_pairs.c
    return select(
        pair.id, pair.source, pair.target, pair.alignment, pair.state, pair.stage, pair.sweep,
        # Cast the values, because a damaged SQLite file can contain values of another type.
        cast(derivations.c.current, LargeBinary), cast(derivations.c.averages, LargeBinary), pair.aligned_by,
        func.coalesce(schedule_restarts.c.restarts, 0), derivations.c.checksum, pair.link_probabilities,
    ).select_from(
        sentence_pairs.outerjoin(derivations, derivations.c.pair_id == sentence_pairs.c.id).outerjoin(
            schedule_restarts, schedule_restarts.c.pair_id == sentence_pairs.c.id
        )
    )  # fmt: skip


def pairs_by_id(connection: Connection, ids: Sequence[int]) -> list[PairRow]:
    """Return the pairs with the given ids, in id order. Unknown ids are skipped."""
    # Skip ids out of range, because the database would raise an error.
    valid_ids = (pair_id for pair_id in ids if 0 < pair_id <= MAX_NUMBER)
    return list(map(PairRow._make, rows_with(connection, pair_rows(), sentence_pairs.c.id, valid_ids)))


def pair_records(connection: Connection, condition: ColumnElement[bool], limit: int | None = None) -> list[PairRecord]:
    """Return up to `limit` pairs that satisfy a condition on `sentence_pairs` and `corpora`, in id order."""
    pair = sentence_pairs.c
    statement = select(
        pair.id, corpora.c.name, pair.external_id, pair.source, pair.target, pair.alignment,
        pair.link_probabilities, pair.state, pair.stage, pair.sweep, pair.added_at,
    ).join(corpora, corpora.c.id == pair.corpus_id)  # fmt: skip
    return [PairRecord(*row) for row in connection.execute(statement.where(condition).order_by(pair.id).limit(limit))]


def find_pair(connection: Connection, pair_id: int) -> PairRecord | None:
    """Return a pair with its corpus name, or None if it does not exist."""
    return next(iter(pair_records(connection, sentence_pairs.c.id == pair_id)), None)


def _score_values(row: ScoreRow, moment: object) -> tuple[object, ...]:
    """Return a row of `pair_scores`. Links are text, such as `0-0:0.980 1-2:0.750`."""
    score = row.score
    side_misfits = score.source_misfit, score.target_misfit
    misfits = ((None, None) if misfit is None else (misfit.log_odds, misfit.position) for misfit in side_misfits)
    links = " ".join(f"{link.source}-{link.target}:{link.probability:.3f}" for link in score.links)
    return (
        row.pair_id, row.position, moment, score.tokens, score.doubt, score.log_probability, score.evidence,
        score.unseen, score.pieces, score.exact, *chain.from_iterable(misfits), links, row.derivation_log_probability,
    )  # fmt: skip


def _make_score(pair_id: int, position: int, scored_at: datetime, *values: Any) -> ScoreRow:
    *numbers, source_log_odds, source_position, target_log_odds, target_position, links, log_probability = values
    source_misfit = None if source_log_odds is None else Misfit(source_position, source_log_odds)
    target_misfit = None if target_log_odds is None else Misfit(target_position, target_log_odds)
    parts = (link.replace(":", "-").split("-") for link in links.split())
    scored_links = tuple(Link(int(source), int(target), float(probability)) for source, target, probability in parts)
    fields = (*numbers, source_misfit, target_misfit, scored_links)
    return ScoreRow(pair_id, position, scored_at, PairScore(*fields), log_probability)


def is_undamaged(pair_id: ColumnElement[int]) -> ColumnElement[bool]:
    """Return the SQL condition that a pair is not damaged."""
    return ~select(damaged_pairs.c.pair_id).where(damaged_pairs.c.pair_id == pair_id).exists()


def _request(transaction: WriteTransaction, pair_ids: Sequence[int]) -> list[int]:
    """Request the withdrawal of pairs. Returns the given ids that are stored, sorted."""
    transaction.stage_ids(set(pair_ids))
    transaction.execute(
        upsert(withdrawals, f"SELECT s.id, corpus_id, batch_id, :moment, NULL {_STAGED_PAIRS} WHERE true", {}),
        moment=transaction.loader.moment(),
    )
    return sorted(transaction.execute(f"SELECT s.id {_STAGED_PAIRS}").scalars())


def withdraw(transaction: WriteTransaction, rows: Sequence[PairRow]) -> None:
    """Delete pairs. Raises `StoreError` if a pair was deleted or resampled since it was read."""
    _request(transaction, [row.id for row in rows])
    sweeps = dict(transaction.execute(f"SELECT s.id, sweep {_STAGED_PAIRS}").all())
    for row in rows:
        if sweeps.get(row.id) != row.sweep:
            raise StoreError(f"pair {row.id} was sampled or withdrawn by another process since it was read: try again")
        transaction.state.add(row.state, -1)
    transaction.execute(
        f"UPDATE corpora SET pairs = pairs - d.number FROM (SELECT corpus_id, count(*) AS number {_STAGED_PAIRS}"
        " GROUP BY corpus_id) AS d WHERE d.corpus_id = corpora.id"
    )
    transaction.delete_staged(
        "damaged_pairs", "rule_pairs", "indexed_pairs", "derivations", "pair_positions", "schedule_restarts",
        "human_links", "link_corrections", "pair_scores",
    )  # fmt: skip
    transaction.delete_staged("sentence_pairs", column="id")
    transaction.execute(
        "UPDATE withdrawals SET done_at = :moment WHERE pair_id IN (SELECT id FROM staged_ids)",
        moment=transaction.loader.moment(),
    )
    sources, targets = [row.source for row in rows], [row.target for row in rows]
    unindex_pairs(transaction, [row.id for row in rows], sources)
    grammar_kind = read_grammar_kind(transaction.connection)
    count_words(transaction, count_pair_words(grammar_kind, sources, targets), -1)
