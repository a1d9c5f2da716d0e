"""How two exports differ: rules added, removed, and most changed."""

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from hierogram.daemon.exceptions import ExportError
from hierogram.daemon.exports.publication import working_folder
from hierogram.daemon.exports.reading import Exported, find_export, read_export
from hierogram.daemon.exports.tables.scratch import Blocks, Scratch, quoted, scratch
from hierogram.samplers.grammar.uses import LEAST_SHOWN, ONE_USE

_LINES_A_BLOCK = 10_000
_ERRORS = 2
"""Standard errors that chance is given credit for."""
_KINDS = ("same", "changed", "added", "removed")
_COLUMNS = {"source": "VARCHAR", "target": "VARCHAR", "count": "DOUBLE"}
# Logarithms come with six digits: counts that differ by less are the same.
_SAME = "abs(a.count - b.count) <= 1e-4 * greatest(abs(a.count), abs(b.count))"


@dataclass(frozen=True, slots=True)
class ChangedRule:
    """A rule and its counts; None where the export lacks it, or lacks counts."""

    source: str
    target: str
    before: float | None
    after: float | None


@dataclass(frozen=True, slots=True)
class Difference:
    """Numbers of rules, and of each kind those with the highest counts, or the greatest change of it.

    `news` are the rules, of all kinds, whose counts moved by more than twice the Monte-Carlo standard error of the
    difference; None where an export, of an earlier version, does not tell its error.
    """

    same: int
    changed: int
    added: int
    removed: int
    most_added: list[ChangedRule]
    most_removed: list[ChangedRule]
    most_changed: list[ChangedRule]
    news: int | None = None
    most_news: list[ChangedRule] = field(default_factory=list)


def compare(before: Path, after: Path, limit: int) -> Difference:
    """Compares two exports of one format; at most `limit` rules of each kind are told. Raises `ExportError`."""
    a, b = find_export(before), find_export(after)
    if a.manifest["format"] != b.manifest["format"]:
        raise ExportError(
            f"{before} is of format {a.manifest['format']}, {after} of format {b.manifest['format']}: "
            "only exports of one format can be compared"
        )
    with (
        tempfile.TemporaryDirectory(prefix="hierogram-") as folder,
        working_folder(Path(folder), "diff") as work,
        scratch(work) as database,
    ):
        for table, exported in (("a", a), ("b", b)):
            database.load(table, _COLUMNS, _blocks(exported))
        database.run(f"""
            CREATE TABLE pairs AS
            SELECT coalesce(a.source, b.source) AS source, coalesce(a.target, b.target) AS target,
                   a.count AS before, b.count AS after,
                   {_news(a, b)} AS news,
                   CASE WHEN b.target IS NULL THEN 'removed' WHEN a.target IS NULL THEN 'added'
                        WHEN a.count IS NULL OR b.count IS NULL OR {_SAME} THEN 'same' ELSE 'changed' END AS kind
              FROM {_together("a")} AS a FULL JOIN {_together("b")} AS b
                ON a.source = b.source AND a.target = b.target""")
        same, changed, added, removed = database.row(
            f"SELECT {', '.join(f'count(*) FILTER (WHERE kind = {quoted(kind)})' for kind in _KINDS)} FROM pairs"
        )
        return Difference(
            same,
            changed,
            added,
            removed,
            _most(database, "added", "after", limit),
            _most(database, "removed", "before", limit),
            _most(database, "changed", "abs(after - before)", limit),
            *_told_news(database, limit, (a, b)),
        )


def _told(exported: Sequence[Exported]) -> bool:
    """Whether all of the exports tell how large the error of a count is."""
    return all(one.manifest.get("variance_a_use") is not None for one in exported)


def _news(a: Exported, b: Exported) -> str:
    """The condition on which a rule's count moved by more than chance explains."""
    if not _told((a, b)):
        return "false"
    # A rule that an export lacks may be expected to be used as often as what is hardly worth counting.
    least = LEAST_SHOWN / ONE_USE
    before, after = f"coalesce(a.count, least(b.count, {least}))", f"coalesce(b.count, least(a.count, {least}))"
    variance = " + ".join(
        f"{float(one.manifest['variance_a_use'])!r} * {count}" for one, count in ((a, before), (b, after))
    )
    return f"(abs({after} - {before}) > {_ERRORS} * sqrt({variance}))"


def _told_news(database: Scratch, limit: int, exported: Sequence[Exported]) -> tuple[int | None, list[ChangedRule]]:
    if not _told(exported):
        return None, []
    [number] = database.row("SELECT count(*) FROM pairs WHERE news AND kind <> 'same'")
    query = (
        "SELECT source, target, before, after FROM pairs WHERE news AND kind <> 'same'"
        f" ORDER BY abs(coalesce(after, 0) - coalesce(before, 0)) DESC, source, target LIMIT {limit}"
    )
    return number, [ChangedRule(*row) for rows in database.columns(query) for row in rows]


def _together(table: str) -> str:
    """The rules of an export, each once: a format's own way to write odd words may make two of them one."""
    return f"""(SELECT coalesce(source, '') AS source, coalesce(target, '') AS target, sum(count) AS count
                  FROM {table} GROUP BY 1, 2)"""


def _blocks(exported: Exported) -> Blocks:
    rules = read_export(exported)
    number = 0
    while some := list(islice(rules, _LINES_A_BLOCK)):
        number += len(some)
        sources, targets = (rule.source for rule in some), (rule.target for rule in some)
        counts = ("" if rule.count is None else repr(rule.count) for rule in some)
        yield number, ["\n".join(column) for column in (sources, targets, counts)]


def _most(database: Scratch, kind: str, value: str, limit: int) -> list[ChangedRule]:
    query = (
        f"SELECT source, target, before, after FROM pairs WHERE kind = '{kind}' "
        f"ORDER BY {value} DESC NULLS LAST, source, target LIMIT {limit}"
    )
    return [ChangedRule(*row) for rows in database.columns(query) for row in rows]
