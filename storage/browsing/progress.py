"""Progress of a store: latest sweeps, inputs, rejected lines, exports and jobs."""

from typing import Any

from hierogram.storage.browsing.reader import ReadTransaction
from hierogram.storage.exports.exports import JOBS, JobRow, read_jobs
from hierogram.storage.grammar.rules import read_status
from hierogram.storage.records.operations import StoreStatus

_MAX_REJECTED = 200
_MAX_EVENTS = 5_000
_MAX_SEARCHED = 10_000
"""Number of the latest files, inputs and exports that are searched for failures."""

LATEST = {
    "batches": """SELECT b.id, c.name AS corpus, b.origin, b.state, b.accepted, b.duplicates, b.rejected, b.started_at,
       b.finished_at, b.error, b.notes
  FROM ingest_batches AS b
  JOIN corpora AS c ON c.id = b.corpus_id
 ORDER BY b.id DESC
 LIMIT :limit""",
    "damaged": "SELECT pair_id, reason, found_at FROM damaged_pairs ORDER BY pair_id LIMIT :limit",
    "failed_files": """SELECT at, corpus, file, path, reason
  FROM failed_files
 ORDER BY id DESC
 LIMIT :limit""",
    "deliveries": """SELECT d.event_id, e.kind, d.state, d.attempts, d.status, d.error
  FROM webhook_deliveries AS d
  LEFT JOIN events AS e ON e.id = d.event_id
 WHERE d.state <> 'done'
 ORDER BY d.event_id DESC
 LIMIT :limit""",
    "exports": """SELECT name, format, state, rules, bytes, seconds, started_at, error, job
  FROM exports
 ORDER BY id DESC
 LIMIT :limit""",
    "changes": f"""SELECT id, at, kind, source, target, expected_uses_before, expected_uses_now, count
  FROM events
 WHERE id > (SELECT last_event_id FROM event_state) - {_MAX_EVENTS} AND kind LIKE 'rule%'
 ORDER BY id DESC
 LIMIT :limit""",
}
"""Queries of latest entries by kind. `damaged` is in id order, `deliveries` omits delivered events."""


def store_status(transaction: ReadTransaction, url: str) -> StoreStatus:
    """Return the status of the store with the URL `url`, without `wal_bytes`."""
    return read_status(transaction.connection, url)


def last_sweeps(transaction: ReadTransaction, limit: int) -> list[dict[str, Any]]:
    """Return the last `limit` sweeps, oldest first. Log-likelihoods are natural logarithms."""
    return transaction.records(
        """SELECT id, stage, pairs, log_likelihood,
       CAST(edges_changed AS DOUBLE PRECISION) / NULLIF(edges_sampled, 0) AS edges_moved,
       CAST(cuts_changed AS DOUBLE PRECISION) / NULLIF(cuts_sampled, 0) AS cuts_moved,
       seconds, finished_at, log_likelihood_before
  FROM sweeps
 ORDER BY id DESC
 LIMIT :limit""",
        limit=limit,
    )[::-1]


def last_rejected(transaction: ReadTransaction, limit: int) -> list[dict[str, Any]]:
    """Return up to `limit` groups of recently rejected lines by reason and input, largest first."""
    groups: dict[tuple[str, str], dict[str, Any]] = {}
    statement = """SELECT reason, CAST(last_line - line + 1 AS BIGINT) AS lines, origin, line, message
  FROM rejected_lines
 ORDER BY id DESC
 LIMIT :limit"""
    for row in transaction.records(statement, limit=_MAX_REJECTED):
        group = groups.setdefault((row["reason"], row["origin"]), row)
        if group is not row:
            group["lines"] += row["lines"]
    return sorted(groups.values(), key=lambda row: (-row["lines"], row["reason"], row["origin"]))[:limit]


def recent_failures(transaction: ReadTransaction) -> dict[str, list[dict[str, Any]]]:
    """Return times of recent failures: `files`, `inputs` (with `state` and `rejected`) and `exports`."""
    statements = {
        "files": "SELECT at FROM failed_files ORDER BY id DESC LIMIT :limit",
        "inputs": """SELECT at, state, rejected
  FROM (SELECT started_at AS at, state, rejected FROM ingest_batches ORDER BY id DESC LIMIT :limit) AS latest
 WHERE state = 'failed' OR rejected > 0""",
        "exports": """SELECT at
  FROM (SELECT started_at AS at, state FROM exports ORDER BY id DESC LIMIT :limit) AS latest
 WHERE state = 'failed'""",
    }
    return {name: transaction.records(statement, limit=_MAX_SEARCHED) for name, statement in statements.items()}


def scheduled_jobs(transaction: ReadTransaction) -> list[JobRow]:
    """Return the scheduled export jobs, ordered by the time of the next run, and record the statement."""
    transaction.statements.append(JOBS)
    return read_jobs(transaction.connection)
