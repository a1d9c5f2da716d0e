"""Progress of a store: latest sweeps, inputs, rejected lines, exports and jobs."""

from typing import Any

from hierogram.storage.browsing.reader import Look
from hierogram.storage.exports.exports import JOB_STATES, JobState, read_job_states
from hierogram.storage.grammar.rules import status
from hierogram.storage.records import StoreStatus
from hierogram.storage.schema.tables import REVISIONS

_REJECTED = 200
_LATEST = 5_000


def latest_rules(look: Look, limit: int) -> list[dict[str, Any]]:
    """Return the rules in use that were stored last, newest first, among the last few thousand."""
    return look.records(
        f"""SELECT source, target, count AS uses
  FROM rules
 WHERE id > (SELECT last_rule_id FROM store_state) - {_LATEST} AND count > 0
 ORDER BY id DESC
 LIMIT :most""",
        most=limit,
    )


def store_status(look: Look, url: str) -> StoreStatus:
    """Return the store's totals."""
    return status(look.connection, url=url, schema=REVISIONS[-1])


def not_counted(look: Look) -> float:
    """Return the share of all expected uses that belongs to rules too rare in a pair to be counted."""
    row = look.row(
        """SELECT (left_out_0 + left_out_1 + left_out_2 + left_out_3)
       / NULLIF(expected_tokens + left_out_0 + left_out_1 + left_out_2 + left_out_3, 0) AS not_counted
  FROM store_state"""
    )
    return float(row[0] or 0) if row else 0.0


def last_sweeps(look: Look, limit: int) -> list[dict[str, Any]]:
    """Return the last sweeps, oldest first: place in the schedule, resampled pairs, log-likelihood (natural).

    At the beginning of a run it also returns the state before it.
    """
    return look.records(
        """SELECT id, stage, pairs, log_likelihood,
       CAST(edges_changed AS DOUBLE PRECISION) / NULLIF(edges_sampled, 0) AS edges_moved,
       CAST(cuts_changed AS DOUBLE PRECISION) / NULLIF(cuts_sampled, 0) AS cuts_moved,
       seconds, finished_at, log_likelihood_before
  FROM sweeps
 ORDER BY id DESC
 LIMIT :most""",
        most=limit,
    )[::-1]


def last_batches(look: Look, limit: int) -> list[dict[str, Any]]:
    """Return the last inputs and their outcomes, newest first."""
    return look.records(
        """SELECT b.id, c.name AS corpus, b.origin, b.state, b.accepted, b.duplicates, b.rejected, b.started_at,
       b.finished_at, b.error, b.notes
  FROM ingest_batches AS b
  JOIN corpora AS c ON c.id = b.corpus_id
 ORDER BY b.id DESC
 LIMIT :most""",
        most=limit,
    )


def last_rejected(look: Look, limit: int) -> list[dict[str, Any]]:
    """Return the reasons of recently rejected lines, the most frequent first, each with an example."""
    together: dict[tuple[str, str], dict[str, Any]] = {}
    for row in look.records(
        """SELECT reason, CAST(last_line - line + 1 AS BIGINT) AS lines, origin, line, message
  FROM rejected_lines
 ORDER BY id DESC
 LIMIT :most""",
        most=_REJECTED,
    ):
        known = together.setdefault((row["reason"], row["origin"]), row)
        if known is not row:
            known["lines"] += row["lines"]
    return sorted(together.values(), key=lambda row: (-row["lines"], row["reason"], row["origin"]))[:limit]


def first_damaged(look: Look, limit: int) -> list[dict[str, Any]]:
    """Return the first pairs that are set aside, by id."""
    return look.records("SELECT pair_id, reason, found_at FROM damaged_pairs ORDER BY pair_id LIMIT :most", most=limit)


def last_changes(look: Look, limit: int) -> list[dict[str, Any]]:
    """Return the last events on rules, newest first, among the last few thousand events."""
    return look.records(
        f"""SELECT id, at, kind, source, target, expected_uses_before, expected_uses_now, number
  FROM events
 WHERE id > (SELECT last_id FROM event_state) - {_LATEST} AND kind LIKE 'rule%'
 ORDER BY id DESC
 LIMIT :most""",
        most=limit,
    )


def last_failed_files(look: Look, limit: int) -> list[dict[str, Any]]:
    """Return the last inputs of the spool that failed, newest first."""
    return look.records(
        """SELECT at, corpus, file, path, reason
  FROM failed_files
 ORDER BY id DESC
 LIMIT :most""",
        most=limit,
    )


def open_deliveries(look: Look, limit: int) -> list[dict[str, Any]]:
    """Return the last events for webhooks that have not been delivered, newest first."""
    return look.records(
        """SELECT d.event_id, e.kind, d.state, d.attempts, d.status, d.error
  FROM webhook_deliveries AS d
  LEFT JOIN events AS e ON e.id = d.event_id
 WHERE d.state <> 'done'
 ORDER BY d.event_id DESC
 LIMIT :most""",
        most=limit,
    )


def last_exports(look: Look, limit: int) -> list[dict[str, Any]]:
    """Return the last exports, newest first."""
    return look.records(
        """SELECT name, format, state, rules, bytes, seconds, started_at, error, job
  FROM exports
 ORDER BY id DESC
 LIMIT :most""",
        most=limit,
    )


def scheduled(look: Look) -> list[JobState]:
    """Return the jobs of the export schedule with their runs, by the time of their next runs."""
    look.asked.append(JOB_STATES)
    return read_job_states(look.connection)


def corpus_names(look: Look) -> list[str]:
    """Return the names of all corpora in order."""
    return [row[0] for row in look.rows("SELECT name FROM corpora ORDER BY name", False)]
