"""Ingest: batches, deduplication of pairs, rejected lines, and idempotent requests."""

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from datetime import datetime
from hashlib import blake2b
from itertools import chain, repeat

from sqlalchemy import Connection, bindparam, delete, insert, select, text, update

from hierogram.samplers.grammar.known_links import KnownLinks
from hierogram.storage.database.connection import POSTGRES
from hierogram.storage.database.leases import close_batch, lease_batch, renew_batch
from hierogram.storage.database.transactions import (
    StoreAccess,
    WriteTransaction,
    new_id,
    now,
    read_grammar_kind,
    rows_with,
    write_learned,
)
from hierogram.storage.events.feed import append
from hierogram.storage.exceptions import StoreError, WriteConflictError
from hierogram.storage.pairs.identities import IDENTITY_BYTES, pair_identities
from hierogram.storage.pairs.pair_index import index_pairs
from hierogram.storage.pairs.vocabulary import count_pair_words, count_words
from hierogram.storage.records.operations import FILE_FAILED, PAIRS_REJECTED, NewEvent, RequestRow
from hierogram.storage.records.pairs import (
    GIVEN,
    NO_ALIGNMENT,
    UNALIGNED,
    WAITING,
    IngestTotals,
    NewPairs,
    RejectedLine,
    join_runs,
)
from hierogram.storage.records.settings import LearnedSettings
from hierogram.storage.schema.tables import (
    corpora,
    failed_files,
    http_requests,
    human_links,
    ingest_batches,
    link_corrections,
    rejected_lines,
    sentence_pairs,
)

RUNNING, DONE, FAILED = "running", "done", "failed"
"""States of ingest batches and exports."""

MAX_TOKEN_BYTES = 1024
"""Maximum length of a token or external id in bytes of UTF-8. Postgres cannot index some longer texts."""
_MAX_SHORT_TEXT = MAX_TOKEN_BYTES // 4

_DIGEST_BYTES = 16

MAX_KEY_LENGTH = 255
"""Maximum length of the key of an idempotent request in characters."""

Receipt = tuple[RequestRow, int | None]
"""New state of a request, and the number of lines in its stored state (None if it is not stored yet)."""


class Ingest(StoreAccess):
    """Ingest of pairs: call `begin_ingest`, `add_pairs` for each chunk of the input, `finish_ingest`."""

    def begin_ingest(self, corpus: str, origin: str, format: str) -> int:
        """Open a batch for the input `origin`, and create the corpus if needed. Returns the batch id."""
        with self._writing() as transaction:
            connection = transaction.connection
            corpus_id = connection.scalar(select(corpora.c.id).where(corpora.c.name == corpus))
            if corpus_id is None:
                added = connection.execute(insert(corpora).values(name=corpus, pairs=0, created_at=now()))
                corpus_id = new_id(added)
            values = {"corpus_id": corpus_id, "origin": origin, "format": format, "state": RUNNING, "started_at": now()}
            batch_id = new_id(connection.execute(insert(ingest_batches).values(values | asdict(IngestTotals()))))
            lease_batch(connection, batch_id)
            return batch_id

    def record_failed_file(self, file: str, corpus: str, reason: str, move: Callable[[], str]) -> None:
        """Record an unreadable spool input. `move` moves its files and returns the first file's new path."""
        with self._writing() as transaction:
            path = move()
            row = {"file": file, "corpus": corpus, "path": path, "reason": reason}
            transaction.connection.execute(insert(failed_files).values(at=now(), **row))
            append(transaction, [NewEvent(FILE_FAILED, detail=row)])

    def add_pairs(
        self,
        batch_id: int,
        new_pairs: NewPairs,
        rejected: Sequence[RejectedLine] = (),
        receipt: Callable[[IngestTotals, list[RejectedLine]], Receipt] | None = None,
        learned: LearnedSettings | None = None,
    ) -> tuple[IngestTotals, list[RejectedLine]]:
        """Store new pairs and rejected lines, atomically. Returns their totals and the rejected runs.

        The store rejects a pair if its external id is stored with other content (`external-id-conflict`) or if a token
        or the external id exceeds `MAX_TOKEN_BYTES` (`token-too-long`). `receipt` returns the state of the request,
        which is recorded in the same transaction. `learned` are the settings that the store's first text determines.
        Raises `StoreError` if the batch is not open, and `WriteConflictError` if another process has recorded
        the request or set other learned settings.
        """
        with self._writing() as transaction:
            if learned:
                write_learned(transaction.connection, learned)
            corpus_id, corpus, origin = _open_batch(transaction.connection, batch_id)
            renew_batch(transaction.connection, batch_id)
            identities = pair_identities(corpus, new_pairs)
            new_indices, duplicates, rejected_pairs = _find_new_pairs(transaction, identities, new_pairs)
            if len(new_indices) < len(new_pairs):
                new_pairs, identities = new_pairs.at(new_indices), [identities[k] for k in new_indices]
            transaction.changes_grammar = bool(new_indices)
            pair_ids = _insert_pairs(transaction, corpus_id, batch_id, identities, new_pairs)
            _insert_human_links(transaction, pair_ids, new_pairs, origin)
            rejected_runs = join_runs([*rejected, *rejected_pairs])
            if rejected_runs:
                save_rejected(transaction, batch_id, corpus, origin, rejected_runs)
            totals = IngestTotals(len(new_indices), duplicates, sum(run.lines for run in rejected_runs))
            transaction.execute(
                "UPDATE corpora SET pairs = pairs + :new WHERE id = :corpus", new=len(new_indices), corpus=corpus_id
            )
            added = ", ".join(f"{name} = {name} + :{name}" for name in asdict(totals))
            transaction.execute(
                f"UPDATE ingest_batches SET {added} WHERE id = :batch", batch=batch_id, **asdict(totals)
            )
            if receipt:
                save_request(transaction, *receipt(totals, rejected_runs))
            return totals, rejected_runs

    def finish_ingest(
        self, batch_id: int, error: str | None = None, receipt: Receipt | None = None, notes: Sequence[str] = ()
    ) -> None:
        """Close a batch as done, or as failed if `error` is given. Raises the errors of `add_pairs`."""
        with self._writing() as transaction:
            _open_batch(transaction.connection, batch_id)
            close_batch(transaction.connection, batch_id, error, "\n".join(notes) or None)
            if receipt:
                save_request(transaction, *receipt)

    def find_request(self, key: str) -> RequestRow | None:
        """Return the idempotent request with the key, or None if it is not recorded."""
        with self._reading() as connection:
            row = connection.execute(
                select(*(http_requests.c[name] for name in RequestRow._fields)).where(http_requests.c.key == key)
            ).one_or_none()
            return None if row is None else RequestRow(*row)

    def forget_requests(self, before: datetime) -> int:
        """Delete idempotent requests that were last updated before `before`. Returns their number."""
        with self._writing() as transaction:
            forgotten = delete(http_requests).where(http_requests.c.updated_at < before)
            return transaction.connection.execute(forgotten).rowcount


def save_rejected(
    transaction: WriteTransaction, batch_id: int, corpus: str, origin: str, lines: Sequence[RejectedLine]
) -> None:
    """Store runs of rejected lines, except lines that an ingest of the same input has already stored."""
    first: dict[str, RejectedLine] = {}
    numbers = Counter[str]()
    while lines:
        lines, saved = _save_runs(transaction, batch_id, corpus, origin, lines)
        for line, number in saved:
            first.setdefault(line.reason, line)
            numbers[line.reason] += number
    transaction.state.rejected_lines += numbers.total()
    details = {
        reason: {"batch": batch_id, "corpus": corpus, "origin": origin, "reason": reason}
        | {"line": line.line, "message": line.message}
        for reason, line in sorted(first.items())
    }
    append(transaction, [NewEvent(PAIRS_REJECTED, count=numbers[k], detail=detail) for k, detail in details.items()])


def _save_runs(
    transaction: WriteTransaction, batch_id: int, corpus: str, origin: str, lines: Sequence[RejectedLine]
) -> tuple[list[RejectedLine], list[tuple[RejectedLine, int]]]:
    """Store runs of new lines. Returns the runs still to store, and (run, number of lines stored now)."""
    offered: dict[bytes, RejectedLine] = {}
    for line in lines:
        head = f"{len(corpus)}:{corpus}{len(origin)}:{origin}{line.first_line}:"
        digest = blake2b(head.encode() + line.content, digest_size=_DIGEST_BYTES).digest()
        offered[digest] = max(line, offered.get(digest, line), key=lambda line: line.last_line)
    table = rejected_lines.c
    columns = select(table.digest, table.id, table.batch_id, table.last_line)
    longer, remainders, saved = [], [], []
    for digest, row_id, stored_batch, last_line in rows_with(transaction.connection, columns, table.digest, offered):
        line = offered.pop(digest)
        further_lines = line.last_line - last_line
        if further_lines > 0 and stored_batch == batch_id:
            longer.append({"row": row_id, "last": line.last_line})
            saved.append((line, further_lines))
        elif further_lines > 0:
            remainders.append(line._replace(line=last_line + 1, lines=further_lines, earlier=0))
    if longer:
        grown = update(rejected_lines).where(table.id == bindparam("row")).values(last_line=bindparam("last"))
        transaction.connection.execute(grown, longer)
    if offered:
        new = [
            {"batch_id": batch_id, "origin": origin, "line": line.first_line, "last_line": line.last_line}
            | {"reason": line.reason, "message": line.message, "content": line.content, "digest": digest}
            for digest, line in offered.items()
        ]
        transaction.connection.execute(insert(rejected_lines), new)
        saved += [(line, line.last_line - line.first_line + 1) for line in offered.values()]
    return remainders, saved


def _insert_pairs(
    transaction: WriteTransaction, corpus_id: int, batch_id: int, identities: list[bytes], pairs: NewPairs
) -> range:
    """Insert pairs, and count and index their words. Returns the ids of the pairs, in their order."""
    state = transaction.state
    pair_ids = range(state.last_pair_id + 1, state.last_pair_id + 1 + len(pairs))
    if not identities:
        return pair_ids
    alignments = pairs.alignments
    grammar_kind = read_grammar_kind(transaction.connection)
    if not grammar_kind.needs_links:
        # Replace missing alignments by empty alignments, because pairs of this grammar kind need no alignment.
        alignments = [alignment or "" for alignment in alignments]
    unaligned = sum(alignment is None for alignment in alignments)
    with ThreadPoolExecutor(1, thread_name_prefix="words") as thread:
        # Count in a second thread, because inserting mostly runs without the GIL.
        words = thread.submit(count_pair_words, grammar_kind, pairs.sources, pairs.targets)
        # Pass an iterator, because a list of tuples of all pairs would burden the garbage collector.
        transaction.loader.insert(
            sentence_pairs,
            zip(
                pair_ids,
                repeat(corpus_id),
                repeat(batch_id),
                pairs.external_ids,
                identities,
                pairs.sources,
                pairs.targets,
                [alignment or "" for alignment in alignments],
                repeat(None),
                [NO_ALIGNMENT if alignment is None else GIVEN for alignment in alignments],
                pairs.source_lengths,
                pairs.target_lengths,
                [UNALIGNED if alignment is None else WAITING for alignment in alignments],
                repeat(0),
                repeat(0),
                repeat(transaction.loader.moment()),
            ),
        )
        count_words(transaction, words.result())
    index_pairs(transaction, pair_ids, pairs.sources)
    state.last_pair_id += len(pairs)
    state.add(UNALIGNED, unaligned)
    state.add(WAITING, len(pairs) - unaligned)
    return pair_ids


def _open_batch(connection: Connection, batch_id: int) -> tuple[int, str, str]:
    row = connection.execute(
        select(ingest_batches.c.state, corpora.c.id, corpora.c.name, ingest_batches.c.origin)
        .join(corpora, corpora.c.id == ingest_batches.c.corpus_id)
        .where(ingest_batches.c.id == batch_id)
    ).one_or_none()
    if row is None:
        raise StoreError(f"ingest batch {batch_id} not found: call begin_ingest first")
    if row.state != RUNNING:
        raise StoreError(f"ingest batch {batch_id} is already {row.state}: begin another batch")
    return row.id, row.name, row.origin


def _find_new_pairs(
    transaction: WriteTransaction, identities: list[bytes], pairs: NewPairs
) -> tuple[Sequence[int], int, list[RejectedLine]]:
    """Return the indices of new pairs, the number of duplicates, and the rejected pairs."""
    stored = _stored_contents(transaction, identities)
    if (
        not stored
        and len(set(identities)) == len(pairs)
        and not _has_long_token(chain(pairs.sources, pairs.targets, filter(None, pairs.external_ids)))
    ):
        return range(len(pairs)), 0, []
    new_indices: list[int] = []
    duplicates = 0
    rejected_pairs: list[RejectedLine] = []
    contents = zip(identities, pairs.sources, pairs.targets, pairs.alignments, strict=True)
    for k, (identity, source, target, alignment) in enumerate(contents):
        stored_content = stored.get(identity)
        external_id = pairs.external_ids[k]
        if stored_content is None:
            if _has_long_token((source, target, external_id or "")):
                message = f"a token or the external id exceeds {MAX_TOKEN_BYTES} bytes: shorten it"
                rejected_pairs.append(_rejected_line(pairs, k, "token-too-long", message))
            else:
                stored[identity] = source, target, alignment
                new_indices.append(k)
        # A pair without an alignment matches a stored pair with any alignment.
        elif stored_content[:2] == (source, target) and alignment in (None, stored_content[2]):
            duplicates += 1
        else:
            message = (
                f"external id {external_id!r} already exists in this corpus with different content, which was kept"
            )
            rejected_pairs.append(_rejected_line(pairs, k, "external-id-conflict", message))
    return new_indices, duplicates, rejected_pairs


_CONTENT = "p.identity, p.source, p.target, p.alignment, p.aligned_by"

# Pass all identities as one value, because a staging table takes twice as long.
_CONTENTS_ON_SQLITE = text(
    "WITH RECURSIVE offered (n) AS"
    " (SELECT 0 WHERE :number > 0 UNION ALL SELECT n + 1 FROM offered WHERE n + 1 < :number)"
    f" SELECT {_CONTENT} FROM offered CROSS JOIN sentence_pairs AS p"
    " WHERE p.identity = substr(:identities, :width * n + 1, :width)"
)
_CONTENTS_ON_POSTGRES = text(
    f"SELECT {_CONTENT} FROM unnest(CAST(:identities AS bytea[])) AS offered (identity)"
    " JOIN sentence_pairs AS p ON p.identity = offered.identity"
)


def _stored_contents(
    transaction: WriteTransaction, identities: list[bytes]
) -> dict[bytes, tuple[str, str, str | None]]:
    """Return source, target and input alignment (or None) of the stored pairs with these identities."""
    if transaction.connection.dialect.name == POSTGRES:
        rows = transaction.connection.execute(_CONTENTS_ON_POSTGRES, {"identities": identities})
    else:
        parameters = {"identities": b"".join(identities), "number": len(identities), "width": IDENTITY_BYTES}
        rows = transaction.connection.execute(_CONTENTS_ON_SQLITE, parameters)
    return {
        identity: (source, target, alignment if aligned_by == GIVEN else None)
        for identity, source, target, alignment, aligned_by in rows
    }


def _has_long_token(texts: Iterable[str]) -> bool:
    # Encode only texts with a long word. Short words cannot exceed the limit, because a character has up to four bytes.
    return any(
        len(text) > _MAX_SHORT_TEXT
        and max(map(len, text.split(" "))) > _MAX_SHORT_TEXT
        and any(len(token.encode()) > MAX_TOKEN_BYTES for token in text.split(" "))
        for text in texts
    )


def _rejected_line(pairs: NewPairs, k: int, reason: str, message: str) -> RejectedLine:
    fields = (pairs.sources[k], pairs.targets[k], pairs.alignments[k])
    content = " ||| ".join(field for field in fields if field is not None).encode()
    return RejectedLine(pairs.lines[k], reason, message, content)


def save_request(transaction: WriteTransaction, request: RequestRow, recorded_lines: int | None) -> None:
    """Record a request. Raises `WriteConflictError` if it is done or `recorded_lines` is outdated."""
    values = request._asdict() | {"updated_at": now()}
    is_request, connection = http_requests.c.key == request.key, transaction.connection
    if recorded_lines is None:
        conflict = connection.scalar(select(http_requests.c.key).where(is_request)) is not None
        if not conflict:
            connection.execute(insert(http_requests).values(**values, started_at=now()))
    else:
        is_open = is_request & (http_requests.c.lines == recorded_lines) & http_requests.c.done.is_(False)
        conflict = connection.execute(update(http_requests).where(is_open).values(values)).rowcount != 1
    if conflict:
        raise WriteConflictError(f"another process has recorded the request {request.key!r}: send it again later")


def text_digest(source: str, target: str) -> bytes:
    """Return the BLAKE2b-128 digest of both sides of a pair."""
    return blake2b(f"{len(source)}:{source}{target}".encode(), digest_size=_DIGEST_BYTES).digest()


def _insert_human_links(transaction: WriteTransaction, pair_ids: Sequence[int], pairs: NewPairs, origin: str) -> None:
    if not pairs.human_links:
        return
    linked = read_grammar_kind(transaction.connection).needs_links
    inserted, changed = [], []
    for index, links in sorted(pairs.human_links.items()):
        pair_id = pair_ids[index]
        inserted += human_link_rows(pair_id, links, origin)
        alignment = pairs.alignments[index] if linked else pairs.alignments[index] or ""
        changed.append(correction_row(pair_id, pairs.sources[index], pairs.targets[index], alignment))
    transaction.connection.execute(insert(human_links), inserted)
    transaction.connection.execute(insert(link_corrections), changed)


def correction_row(pair_id: int, source: str, target: str, input_alignment: str | None) -> dict[str, object]:
    """Return the row of `link_corrections` for a pair that gets its first human links."""
    versions = {"version": 1, "applied_version": 0}
    digest = text_digest(source, target)
    return {"pair_id": pair_id, **versions, "input_alignment": input_alignment, "text_digest": digest}


def human_link_rows(pair_id: int, links: KnownLinks, origin: str) -> list[dict[str, object]]:
    """Return the human links of a pair as rows of `human_links`."""
    moment = now()
    return [
        {"pair_id": pair_id, "source": s, "target": t, "fixed": fixed, "origin": origin, "added_at": moment}
        for fixed, positions in ((True, links.fixed), (False, links.forbidden))
        for s, t in sorted(positions)
    ]
