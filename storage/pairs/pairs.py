"""Ingest's writes and the reads of sentence pairs."""

from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import chain, repeat
from operator import attrgetter

from sqlalchemy import Connection, Row, Select, func, insert, select, text, update

from hierogram.storage.database.connection import POSTGRES
from hierogram.storage.database.transactions import Writing, new_id, now, read_state
from hierogram.storage.exceptions import IngestError, StoreError
from hierogram.storage.operations.claims import claim_batch, release_batch, renew_batch
from hierogram.storage.operations.settings import read_notation
from hierogram.storage.pairs.identity import IDENTITY_BYTES, pair_identities
from hierogram.storage.pairs.known_links import insert_links
from hierogram.storage.pairs.rejections import RejectedFrom, keep_rejected
from hierogram.storage.pairs.vocabulary import count_words, words_of_pairs
from hierogram.storage.records import (
    GIVEN,
    NOBODY,
    UNALIGNED,
    UNSETTLED,
    WAITING,
    AddedPairs,
    IngestTotals,
    LagRow,
    NewPairs,
    PairRecord,
    PairRow,
    RejectedLine,
    in_runs,
)
from hierogram.storage.schema.tables import corpora, derivations, ingest_batches, restarts, sentence_pairs

RUNNING, DONE, FAILED = "running", "done", "failed"

MAX_TOKEN_BYTES = 1024
"""Longest token or external id that the store takes, in bytes of UTF-8 (Postgres cannot index all longer)."""
_SURELY_SHORT = MAX_TOKEN_BYTES // 4

_PAIR_COLUMNS = (
    "id",
    "corpus_id",
    "batch_id",
    "external_id",
    "identity",
    "source",
    "target",
    "alignment",
    "aligned_by",
    "source_length",
    "target_length",
    "state",
    "stage",
    "sweep",
    "added_at",
)


def pair_rows() -> Select[tuple[object, ...]]:
    """Selects what a `PairRow` holds, in its order."""
    return select(
        sentence_pairs.c.id,
        sentence_pairs.c.source,
        sentence_pairs.c.target,
        sentence_pairs.c.alignment,
        sentence_pairs.c.state,
        sentence_pairs.c.stage,
        sentence_pairs.c.sweep,
        derivations.c.current,
        derivations.c.expected_uses,
        sentence_pairs.c.aligned_by,
        func.coalesce(restarts.c.number, 0),
    ).select_from(
        sentence_pairs.outerjoin(derivations, derivations.c.pair_id == sentence_pairs.c.id).outerjoin(
            restarts, restarts.c.pair_id == sentence_pairs.c.id
        )
    )


def begin_ingest(writing: Writing, corpus: str, origin: str, format: str) -> int:
    """Opens a batch, and its corpus if it is new; returns the batch's id."""
    connection = writing.connection
    corpus_id = connection.scalar(select(corpora.c.id).where(corpora.c.name == corpus))
    if corpus_id is None:
        added = connection.execute(insert(corpora).values(name=corpus, pairs=0, created_at=now()))
        corpus_id = new_id(added)
    batch = connection.execute(
        insert(ingest_batches).values(
            corpus_id=corpus_id,
            origin=origin,
            format=format,
            state=RUNNING,
            started_at=now(),
            accepted=0,
            duplicates=0,
            rejected=0,
        )
    )
    batch_id = new_id(batch)
    claim_batch(connection, batch_id)
    return batch_id


def add_pairs(writing: Writing, batch_id: int, pairs: NewPairs, rejected: Sequence[RejectedLine]) -> AddedPairs:
    """Stores the pairs that are new, with their words, and keeps the rejected lines.

    Raises `IngestError` where the batch is not open.
    """
    batch = _open_batch(writing.connection, batch_id)
    renew_batch(writing.connection, batch_id)
    corpus_id, corpus, origin = batch
    identities = pair_identities(corpus, pairs)
    fresh, duplicates, refused = _sort_out(writing, identities, pairs)
    if len(fresh) < len(pairs):
        pairs, identities = pairs.at(fresh), [identities[k] for k in fresh]
    first_id = writing.state.last_pair_id + 1
    _insert_pairs(writing, (corpus_id, batch_id), identities, pairs)
    insert_links(writing, range(first_id, first_id + len(pairs)), pairs, origin)
    turned_down = in_runs([*rejected, *refused])
    keep_rejected(writing, batch_id, RejectedFrom(corpus, origin), turned_down)
    totals = IngestTotals(len(fresh), duplicates, sum(run.lines for run in turned_down))
    writing.connection.execute(
        update(corpora).where(corpora.c.id == corpus_id).values(pairs=corpora.c.pairs + len(fresh))
    )
    writing.connection.execute(
        update(ingest_batches)
        .where(ingest_batches.c.id == batch_id)
        .values(
            accepted=ingest_batches.c.accepted + totals.accepted,
            duplicates=ingest_batches.c.duplicates + totals.duplicates,
            rejected=ingest_batches.c.rejected + totals.rejected,
        )
    )
    return AddedPairs(totals, refused)


def _insert_pairs(writing: Writing, origin: tuple[int, int], identities: list[bytes], pairs: NewPairs) -> None:
    """Stores the pairs, of a corpus and a batch, and counts their words."""
    if not identities:
        return
    corpus_id, batch_id = origin
    alignments = pairs.alignments
    notation = read_notation(writing.connection)
    if not notation.linked:
        # Nobody has to link their words: they are complete as they are.
        alignments = [alignment or "" for alignment in alignments]
    raw = sum(alignment is None for alignment in alignments)
    with ThreadPoolExecutor(1, thread_name_prefix="words") as thread:
        # Both are mostly done without the interpreter, on two cores.
        words = thread.submit(words_of_pairs, notation, pairs.sources, pairs.targets)
        # Columns, because a tuple for each pair would be made and looked at by the garbage collector only to be bound.
        writing.loader.insert(
            sentence_pairs,
            _PAIR_COLUMNS,
            zip(
                range(writing.state.last_pair_id + 1, writing.state.last_pair_id + 1 + len(pairs)),
                repeat(corpus_id),
                repeat(batch_id),
                pairs.external_ids,
                identities,
                pairs.sources,
                pairs.targets,
                [alignment or "" for alignment in alignments],
                [NOBODY if alignment is None else GIVEN for alignment in alignments],
                pairs.source_lengths,
                pairs.target_lengths,
                [UNALIGNED if alignment is None else WAITING for alignment in alignments],
                repeat(0),
                repeat(0),
                repeat(writing.loader.moment(now())),
            ),
        )
        count_words(writing, words.result())
    # Whoever only looks needs no numpy.
    from hierogram.storage.pairs.pair_words import note_pairs

    first = writing.state.last_pair_id + 1
    note_pairs(writing, range(first, first + len(pairs)), pairs.sources)
    writing.state.last_pair_id += len(pairs)
    writing.state.count_pairs(UNALIGNED, raw)
    writing.state.count_pairs(WAITING, len(pairs) - raw)


def finish_ingest(writing: Writing, batch_id: int, error: str | None) -> None:
    """Closes a batch as done, or as failed with what went wrong."""
    _open_batch(writing.connection, batch_id)
    release_batch(writing.connection, batch_id)
    writing.connection.execute(
        update(ingest_batches)
        .where(ingest_batches.c.id == batch_id)
        .values(state=DONE if error is None else FAILED, finished_at=now(), error=error)
    )


def _open_batch(connection: Connection, batch_id: int) -> tuple[int, str, str]:
    row = connection.execute(
        select(ingest_batches.c.state, corpora.c.id, corpora.c.name, ingest_batches.c.origin)
        .join(corpora, corpora.c.id == ingest_batches.c.corpus_id)
        .where(ingest_batches.c.id == batch_id)
    ).one_or_none()
    if row is None:
        raise IngestError(f"ingest batch {batch_id} does not exist: begin one first")
    if row.state != RUNNING:
        raise IngestError(f"ingest batch {batch_id} is already {row.state}: begin another one")
    return row.id, row.name, row.origin


def _sort_out(
    writing: Writing, identities: list[bytes], pairs: NewPairs
) -> tuple[Sequence[int], int, list[RejectedLine]]:
    """The places of the new pairs, the number of duplicates, and the pairs that cannot be stored."""
    stored = _stored_contents(writing, identities)
    if not stored and len(set(identities)) == len(pairs) and not _may_have_long_token(pairs):
        return range(len(pairs)), 0, []
    fresh: dict[bytes, int] = {}
    duplicates = 0
    refused: list[RejectedLine] = []
    offered = zip(pairs.sources, pairs.targets, pairs.alignments, strict=True)
    for k, (identity, (source, target, alignment)) in enumerate(zip(identities, offered, strict=True)):
        known = stored.get(identity) if stored else None
        if known is None:
            earlier = fresh.get(identity)
            if earlier is None:
                if _has_long_token(source, target, pairs.external_ids[k] or ""):
                    refused.append(_too_long(pairs, k))
                else:
                    fresh[identity] = k
                continue
            known = pairs.sources[earlier], pairs.targets[earlier], pairs.alignments[earlier]
        # A pair that is offered without an alignment asks nothing of the stored one's.
        if known[:2] == (source, target) and (alignment is None or known[2] == alignment):
            duplicates += 1
        else:
            refused.append(_conflict(pairs, k))
    return list(fresh.values()), duplicates, refused


_CONTENT = "p.identity, p.source, p.target, p.alignment, p.aligned_by"

# One value that holds all identities costs half of what a staging table of them does.
_CONTENTS_ON_SQLITE = text(
    "WITH RECURSIVE places (place) AS"
    " (SELECT 0 WHERE :number > 0 UNION ALL SELECT place + 1 FROM places WHERE place + 1 < :number)"
    f" SELECT {_CONTENT} FROM places CROSS JOIN sentence_pairs AS p"
    " WHERE p.identity = substr(:identities, :width * place + 1, :width)"
)
_CONTENTS_ON_POSTGRES = text(
    f"SELECT {_CONTENT} FROM unnest(CAST(:identities AS bytea[])) AS offered (identity)"
    " JOIN sentence_pairs AS p ON p.identity = offered.identity"
)


def _stored_contents(writing: Writing, identities: list[bytes]) -> dict[bytes, tuple[str, str, str | None]]:
    """Source, target and given alignment (None: there is none) of the pairs that are stored, by identity."""
    if writing.connection.dialect.name == POSTGRES:
        rows = writing.connection.execute(_CONTENTS_ON_POSTGRES, {"identities": identities})
    else:
        parameters = {"identities": b"".join(identities), "number": len(identities), "width": IDENTITY_BYTES}
        rows = writing.connection.execute(_CONTENTS_ON_SQLITE, parameters)
    return {
        identity: (source, target, alignment if aligned_by == GIVEN else None)
        for identity, source, target, alignment, aligned_by in rows
    }


def _may_have_long_token(pairs: NewPairs) -> bool:
    texts = chain(pairs.sources, pairs.targets, filter(None, pairs.external_ids))
    return any(max(map(len, text.split(" "))) > _SURELY_SHORT for text in texts if len(text) > _SURELY_SHORT)


def _has_long_token(*texts: str) -> bool:
    # A character has at most four bytes: only a very long word has to be encoded to know.
    return any(
        len(text) > _SURELY_SHORT
        and max(map(len, text.split(" "))) > _SURELY_SHORT
        and any(len(token.encode()) > MAX_TOKEN_BYTES for token in text.split(" "))
        for text in texts
    )


def _content(pairs: NewPairs, k: int) -> bytes:
    fields = (pairs.sources[k], pairs.targets[k], pairs.alignments[k])
    return " ||| ".join(field for field in fields if field is not None).encode()


def _too_long(pairs: NewPairs, k: int) -> RejectedLine:
    message = f"a token or the external id is longer than {MAX_TOKEN_BYTES} bytes"
    return RejectedLine(pairs.lines[k], "token-too-long", message, _content(pairs, k))


def _conflict(pairs: NewPairs, k: int) -> RejectedLine:
    message = f"external id {pairs.external_ids[k]!r} is stored in this corpus with other content, which was kept"
    return RejectedLine(pairs.lines[k], "external-id-conflict", message, _content(pairs, k))


def pairs_after(
    connection: Connection, after_id: int, limit: int | None, states: Sequence[str] | None
) -> list[PairRow]:
    """Pairs with a larger id, in id order."""
    ordered = pair_rows().where(sentence_pairs.c.id > after_id).order_by(sentence_pairs.c.id).limit(limit)
    if states is None:
        return as_rows(connection.execute(ordered))
    # State by state, since an index has the pairs of one state in the order of their ids, but not of several.
    rows = [
        row
        for state in dict.fromkeys(states)
        for row in as_rows(connection.execute(ordered.where(sentence_pairs.c.state == state)))
    ]
    rows.sort(key=attrgetter("id"))
    return rows[:limit]


def pairs_by_id(connection: Connection, ids: Sequence[int]) -> list[PairRow]:
    """The pairs with these ids, in id order; ids without a pair are left out."""
    rows: list[PairRow] = []
    wanted = sorted(set(ids))
    for start in range(0, len(wanted), _IDS_PER_QUERY):
        chunk = wanted[start : start + _IDS_PER_QUERY]
        statement = pair_rows().where(sentence_pairs.c.id.in_(chunk)).order_by(sentence_pairs.c.id)
        rows += as_rows(connection.execute(statement))
    return rows


_IDS_PER_QUERY = 10_000


def find_pair(connection: Connection, pair_id: int) -> PairRecord | None:
    """The pair with its corpus' name, None if there is none."""
    row = connection.execute(
        select(
            sentence_pairs.c.id,
            corpora.c.name,
            sentence_pairs.c.external_id,
            sentence_pairs.c.source,
            sentence_pairs.c.target,
            sentence_pairs.c.alignment,
            sentence_pairs.c.state,
            sentence_pairs.c.stage,
            sentence_pairs.c.sweep,
            sentence_pairs.c.added_at,
        )
        .join(corpora, corpora.c.id == sentence_pairs.c.corpus_id)
        .where(sentence_pairs.c.id == pair_id)
    ).one_or_none()
    return None if row is None else PairRecord._make(row)


def count_pairs(connection: Connection, states: Sequence[str] | None) -> int:
    """How many pairs there are, in any of the states if some are given."""
    by_state = read_state(connection).pairs()
    if states is not None and not by_state.keys() >= set(states):
        raise StoreError(f"no state of a pair: {', '.join(set(states) - by_state.keys())}")
    return sum(by_state[state] for state in (by_state if states is None else set(states)))


def lag(connection: Connection) -> LagRow:
    """How far sampling is behind; takes the same time whatever the store's size."""
    totals = read_state(connection)
    oldest = [
        added_at
        for state in UNSETTLED
        for added_at in connection.scalars(
            select(sentence_pairs.c.added_at)
            .where(sentence_pairs.c.state == state)
            .order_by(sentence_pairs.c.id)
            .limit(1)
        )
    ]
    age = max((now() - min(oldest)).total_seconds(), 0.0) if oldest else None
    states = {state: number for state, number in totals.pairs().items() if state in UNSETTLED}
    return LagRow(sum(states.values()), age, states)


def as_rows(rows: Iterable[Row[tuple[object, ...]]]) -> list[PairRow]:
    """The rows of `pair_rows()`."""
    return [PairRow._make(row) for row in rows]
