"""Storage of rejected lines. Consecutive lines with the same reason share a row."""

from collections import Counter
from collections.abc import Sequence
from hashlib import blake2b

from sqlalchemy import bindparam, insert, select, update

from hierogram.storage.database.loading import staged_digests
from hierogram.storage.database.transactions import WriteTransaction
from hierogram.storage.events.feed import append
from hierogram.storage.records import RejectedLine
from hierogram.storage.records.operations import PAIRS_REJECTED, NewEvent
from hierogram.storage.schema.tables import rejected_lines

_DIGEST_BYTES = 16


def save_rejected(
    transaction: WriteTransaction, batch_id: int, corpus: str, origin: str, lines: Sequence[RejectedLine]
) -> None:
    """Store runs of `in_runs`. Lines that this or an earlier ingest of the input has stored are not stored twice."""
    first: dict[str, RejectedLine] = {}
    numbers = Counter[str]()
    while lines:
        lines, saved = _save(transaction, batch_id, corpus, origin, lines)
        for line, number in saved:
            first.setdefault(line.reason, line)
            numbers[line.reason] += number
    transaction.state.rejected_lines += numbers.total()
    append(
        transaction,
        [
            NewEvent(
                PAIRS_REJECTED,
                count=numbers[reason],
                detail={
                    "batch": batch_id,
                    "corpus": corpus,
                    "origin": origin,
                    "reason": reason,
                    "line": line.line,
                    "message": line.message,
                },
            )
            for reason, line in sorted(first.items())
        ],
    )


def _save(
    transaction: WriteTransaction, batch_id: int, corpus: str, origin: str, lines: Sequence[RejectedLine]
) -> tuple[list[RejectedLine], list[tuple[RejectedLine, int]]]:
    """Store runs of lines. Returns (remainders, stored runs with their numbers of new lines).

    A remainder is the part of a run that follows the lines that an earlier batch stored. It needs its own row.
    """
    offered: dict[bytes, RejectedLine] = {}
    for line in lines:
        head = f"{len(corpus)}:{corpus}{len(origin)}:{origin}{line.first_line}:"
        digest = blake2b(head.encode() + line.content, digest_size=_DIGEST_BYTES).digest()
        offered[digest] = max(line, offered.get(digest, line), key=lambda line: line.last_line)
    table = rejected_lines.c
    transaction.loader.stage(staged_digests, ((digest,) for digest in offered))
    rows = transaction.connection.execute(
        select(table.digest, table.id, table.batch_id, table.last_line).join(
            staged_digests, table.digest == staged_digests.c.digest
        )
    )
    longer, rests, saved = [], [], []
    for digest, row_id, kept_by, last_line in rows:
        line = offered.pop(digest)
        further_lines = line.last_line - last_line
        if further_lines > 0 and kept_by == batch_id:
            longer.append({"row": row_id, "last": line.last_line})
            saved.append((line, further_lines))
        elif further_lines > 0:
            rests.append(line._replace(line=last_line + 1, lines=further_lines, earlier=0))
    if longer:
        grown = update(rejected_lines).where(table.id == bindparam("row")).values(last_line=bindparam("last"))
        transaction.connection.execute(grown, longer)
    if offered:
        new = [
            {
                "batch_id": batch_id,
                "origin": origin,
                "line": line.first_line,
                "last_line": line.last_line,
                "reason": line.reason,
                "message": line.message,
                "content": line.content,
                "digest": digest,
            }
            for digest, line in offered.items()
        ]
        transaction.connection.execute(insert(rejected_lines), new)
        saved += [(line, line.last_line - line.first_line + 1) for line in offered.values()]
    return rests, saved
