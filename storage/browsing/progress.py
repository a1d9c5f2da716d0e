"""Progress of a store: latest sweeps, inputs, rejected lines, exports and jobs."""

from typing import Any

from hierogram.storage.browsing.reader import ReadTransaction
from hierogram.storage.exports.exports import JOB_STATES, JobState, read_job_states
from hierogram.storage.grammar.rules import read_status
from hierogram.storage.records.operations import StoreStatus
from hierogram.storage.schema.tables import REVISIONS

_REJECTED = 200
_LATEST = 5_000
_COUNTED = 10_000
"""Number of rows of each table in which failures are counted."""


def _latest(transaction: ReadTransaction, columns: str, table: str, limit: int) -> list[dict[str, Any]]:
    return transaction.records(f"SELECT {columns}\n  FROM {table}\n ORDER BY id DESC\n LIMIT :most", most=limit)


def store_status(transaction: ReadTransaction, url: str) -> StoreStatus:
    """Return the store's totals."""
    return read_status(transaction.connection, url=url, schema=REVISIONS[-1])


def last_sweeps(transaction: ReadTransaction, limit: int) -> list[dict[str, Any]]:
    """Return the last sweeps, oldest first: place in the schedule, resampled pairs, log-likelihood (natural).

    At the beginning of a run, includes the state before the run.
    """
    return transaction.records(
        """SELECT id, stage, pairs, log_likelihood,
       CAST(edges_changed AS DOUBLE PRECISION) / NULLIF(edges_sampled, 0) AS edges_moved,
       CAST(cuts_changed AS DOUBLE PRECISION) / NULLIF(cuts_sampled, 0) AS cuts_moved,
       seconds, finished_at, log_likelihood_before
  FROM sweeps
 ORDER BY id DESC
 LIMIT :most""",
        most=limit,
    )[::-1]


def last_batches(transaction: ReadTransaction, limit: int) -> list[dict[str, Any]]:
    """Return the last inputs and their outcomes, newest first."""
    return transaction.records(
        """SELECT b.id, c.name AS corpus, b.origin, b.state, b.accepted, b.duplicates, b.rejected, b.started_at,
       b.finished_at, b.error, b.notes
  FROM ingest_batches AS b
  JOIN corpora AS c ON c.id = b.corpus_id
 ORDER BY b.id DESC
 LIMIT :most""",
        most=limit,
    )


def last_rejected(transaction: ReadTransaction, limit: int) -> list[dict[str, Any]]:
    """Return the reasons of recently rejected lines, the most frequent first, each with an example."""
    together: dict[tuple[str, str], dict[str, Any]] = {}
    columns = "reason, CAST(last_line - line + 1 AS BIGINT) AS lines, origin, line, message"
    for row in _latest(transaction, columns, "rejected_lines", _REJECTED):
        group = together.setdefault((row["reason"], row["origin"]), row)
        if group is not row:
            group["lines"] += row["lines"]
    return sorted(together.values(), key=lambda row: (-row["lines"], row["reason"], row["origin"]))[:limit]


def first_damaged(transaction: ReadTransaction, limit: int) -> list[dict[str, Any]]:
    """Return the first pairs that are set aside, by id."""
    return transaction.records(
        "SELECT pair_id, reason, found_at FROM damaged_pairs ORDER BY pair_id LIMIT :most", most=limit
    )


def last_changes(transaction: ReadTransaction, limit: int) -> list[dict[str, Any]]:
    """Return the last events on rules, newest first, among the last few thousand events."""
    return transaction.records(
        f"""SELECT id, at, kind, source, target, expected_uses_before, expected_uses_now, count
  FROM events
 WHERE id > (SELECT last_event_id FROM event_state) - {_LATEST} AND kind LIKE 'rule%'
 ORDER BY id DESC
 LIMIT :most""",
        most=limit,
    )


def last_failed_files(transaction: ReadTransaction, limit: int) -> list[dict[str, Any]]:
    """Return the last inputs of the spool that failed, newest first."""
    return _latest(transaction, "at, corpus, file, path, reason", "failed_files", limit)


def recent_failures(transaction: ReadTransaction) -> dict[str, list[dict[str, Any]]]:
    """Return failed files, inputs that failed or had rejected lines, and failed exports, among the latest rows."""
    statements = {
        "files": "SELECT at FROM failed_files ORDER BY id DESC LIMIT :most",
        "inputs": """SELECT at, state, rejected
  FROM (SELECT started_at AS at, state, rejected FROM ingest_batches ORDER BY id DESC LIMIT :most) AS latest
 WHERE state = 'failed' OR rejected > 0""",
        "exports": """SELECT at
  FROM (SELECT started_at AS at, state FROM exports ORDER BY id DESC LIMIT :most) AS latest
 WHERE state = 'failed'""",
    }
    return {name: transaction.records(statement, most=_COUNTED) for name, statement in statements.items()}


def open_deliveries(transaction: ReadTransaction, limit: int) -> list[dict[str, Any]]:
    """Return the last events for webhooks that have not been delivered, newest first."""
    return transaction.records(
        """SELECT d.event_id, e.kind, d.state, d.attempts, d.status, d.error
  FROM webhook_deliveries AS d
  LEFT JOIN events AS e ON e.id = d.event_id
 WHERE d.state <> 'done'
 ORDER BY d.event_id DESC
 LIMIT :most""",
        most=limit,
    )


def last_exports(transaction: ReadTransaction, limit: int) -> list[dict[str, Any]]:
    """Return the last exports, newest first."""
    columns = "name, format, state, rules, bytes, seconds, started_at, error, job"
    return _latest(transaction, columns, "exports", limit)


def scheduled_jobs(transaction: ReadTransaction) -> list[JobState]:
    """Return the jobs of the export schedule with their runs, by the time of their next runs."""
    transaction.statements.append(JOB_STATES)
    return read_job_states(transaction.connection)


def corpus_names(transaction: ReadTransaction) -> list[str]:
    """Return the names of all corpora in order."""
    return [row[0] for row in transaction.rows("SELECT name FROM corpora ORDER BY name", False)]
