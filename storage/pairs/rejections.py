"""Rejected lines: those one after the other that were rejected for one reason are one row."""

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import NamedTuple

from sqlalchemy import bindparam, insert, select, update

from hierogram.storage.database.loading import staged_digests
from hierogram.storage.database.transactions import Writing
from hierogram.storage.events.feed import append
from hierogram.storage.records import RejectedLine
from hierogram.storage.records.operations import PAIRS_REJECTED, NewEvent
from hierogram.storage.schema.tables import rejected_lines

_DIGEST_BYTES = 16


class RejectedFrom(NamedTuple):
    """Where rejected lines come from: the corpus that they were meant for, and the input."""

    corpus: str
    origin: str


def keep_rejected(writing: Writing, batch_id: int, source: RejectedFrom, lines: Sequence[RejectedLine]) -> None:
    """Keeps what `in_runs` gives; lines that are known, from this or an earlier offer of the input, are kept once."""
    news: dict[str, _News] = {}
    while lines:
        lines = _keep(writing, batch_id, source, lines, news)
    append(
        writing,
        [
            NewEvent(
                PAIRS_REJECTED,
                number=told.lines,
                detail={
                    "batch": batch_id,
                    "corpus": source.corpus,
                    "origin": source.origin,
                    "reason": reason,
                    "line": told.first.line,
                    "message": told.first.message,
                },
            )
            for reason, told in sorted(news.items())
        ],
    )


@dataclass(slots=True)
class _News:
    """Lines that were rejected for one reason and were not known: the first of them, and how many they are."""

    first: RejectedLine
    lines: int = 0


def _count(writing: Writing, news: dict[str, _News], line: RejectedLine, number: int) -> None:
    writing.state.rejected += number
    news.setdefault(line.reason, _News(line)).lines += number


def _keep(
    writing: Writing, batch_id: int, source: RejectedFrom, lines: Sequence[RejectedLine], news: dict[str, _News]
) -> Sequence[RejectedLine]:
    """Keeps lines; returns what comes after lines that an earlier batch has kept, which is to be kept on its own."""
    offered: dict[bytes, RejectedLine] = {}
    for line in lines:
        digest = _digest(source.corpus, source.origin, line.first_line, line.content)
        offered[digest] = max(line, offered.get(digest, line), key=lambda line: line.last_line)
    table = rejected_lines.c
    writing.loader.stage(staged_digests, ((digest,) for digest in offered))
    rows = writing.connection.execute(
        select(table.digest, table.id, table.batch_id, table.last_line).join(
            staged_digests, table.digest == staged_digests.c.digest
        )
    )
    longer, rests = [], []
    for digest, row_id, kept_by, last_line in rows:
        line = offered.pop(digest)
        more = line.last_line - last_line
        if more > 0 and kept_by == batch_id:
            longer.append({"row": row_id, "last": line.last_line})
            _count(writing, news, line, more)
        elif more > 0:
            rests.append(line._replace(line=last_line + 1, lines=more, earlier=0))
    if longer:
        grown = update(rejected_lines).where(table.id == bindparam("row")).values(last_line=bindparam("last"))
        writing.connection.execute(grown, longer)
    if offered:
        new = [
            {
                "batch_id": batch_id,
                "origin": source.origin,
                "line": line.first_line,
                "last_line": line.last_line,
                "reason": line.reason,
                "message": line.message,
                "content": line.content,
                "digest": digest,
            }
            for digest, line in offered.items()
        ]
        writing.connection.execute(insert(rejected_lines), new)
        for line in offered.values():
            _count(writing, news, line, line.last_line - line.first_line + 1)
    return rests


def _digest(corpus: str, origin: str, line: int, content: bytes) -> bytes:
    """BLAKE2b-128 of a rejected line: of corpus, origin, line number and content."""
    head = f"{len(corpus)}:{corpus}{len(origin)}:{origin}{line}:"
    return blake2b(head.encode() + content, digest_size=_DIGEST_BYTES).digest()
