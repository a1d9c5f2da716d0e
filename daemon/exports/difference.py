"""Compare two exports: find added and removed rules, and the rules whose counts changed most."""

import gzip
import tempfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import zstandard

from hierogram.daemon.exceptions import ExportError, UsageError
from hierogram.daemon.exports.formats import BY_NAME, Features, Format, find_format
from hierogram.daemon.exports.publication import MANIFEST, manifest_path, read_manifest
from hierogram.daemon.exports.scratch import SIDE_COLUMNS, Blocks, Scratch, open_scratch
from hierogram.daemon.shared_options import LIBRARY_LIMIT
from hierogram.samplers.grammar.numbers import ONE_USE, ROUNDING_STEP
from hierogram.storage.browsing.reader import literal
from hierogram.storage.records.uncertainty import squared_error_sql


def _find_export(path: Path) -> tuple[Path, dict[str, Any]]:
    if path.is_dir():
        manifest = read_manifest(path / MANIFEST)
        return path / str(manifest["file"]), manifest
    return path, read_manifest(manifest_path(path))


def _load(database: Scratch, table: str, path: Path, manifest: dict[str, Any]) -> None:
    """Create a table (source, target, count). Counts are NULL or NaN if the export has none."""
    try:
        format = find_format(manifest["format"])
        features = [BY_NAME[name] for name in manifest["features"]]
    except (ValueError, KeyError) as error:
        reason = f"unknown or missing entry {error}" if isinstance(error, KeyError) else error
        raise ExportError(
            f"{path}: this version of Hierogram cannot read its manifest: {reason}: export the grammar again"
        ) from error
    if format.read is None:
        count = "CAST(count AS DOUBLE)" if "count" in manifest["features"] else "CAST(NULL AS DOUBLE)"
        rules = f"read_parquet({literal(str(path))}, hive_partitioning=false)"
        database.run(f"CREATE TABLE {table} AS SELECT source, target, {count} AS count FROM {rules}")
    else:
        blocks = _blocks(path, manifest["compression"], format, features)
        database.load(table, SIDE_COLUMNS | {"count": "DOUBLE"}, blocks)


def _lines(path: Path, compression: str) -> Iterator[str]:
    opener: Any = {"zstd": zstandard.open, "gzip": gzip.open}.get(compression, open)
    try:
        with opener(path, "rt", encoding="utf-8", newline="\n") as lines:
            for line in lines:
                if not line.endswith("\n"):
                    raise ExportError(f"{path}: truncated in the middle of a line: export it again")
                yield line[:-1]
    except (OSError, EOFError, zlib.error, zstandard.ZstdError, UnicodeDecodeError) as error:
        raise ExportError(f"{path}: cannot be read: {error}") from error


_LINES_PER_BLOCK = 10_000
# Allow for rounding errors: some formats write logarithms of counts with six digits.
_IS_SAME = "abs(a.count - b.count) <= 1e-4 * greatest(abs(a.count), abs(b.count))"


@dataclass(frozen=True, slots=True)
class ChangedRule:
    """Rule with its counts in both exports. A count is None if the export lacks the rule or has no counts."""

    source: str
    target: str
    before: float | None
    after: float | None


@dataclass(frozen=True, slots=True)
class Difference:
    """Numbers of unchanged, changed, added and removed rules, and lists of the largest changes.

    `significant` is the number of rules whose counts changed by more than twice the Monte Carlo standard error of the
    change, or None if a manifest lacks `variance_per_use`.
    """

    same: int
    changed: int
    added: int
    removed: int
    most_added: list[ChangedRule]
    most_removed: list[ChangedRule]
    most_changed: list[ChangedRule]
    significant: int | None = None
    most_significant: list[ChangedRule] = field(default_factory=list)


def diff(before: str | Path, after: str | Path, limit: int = 10) -> Difference:
    """Compare two exports of the same format. Each list of rules in the result has up to `limit` rules.

    A path is a file of rules or the folder of a version. Raises `ExportError`, `UsageError`.
    """
    if problem := LIBRARY_LIMIT.problem(limit):
        raise UsageError(f"limit: {problem}")
    exports = {"a": _find_export(Path(before)), "b": _find_export(Path(after))}
    format, other_format = (manifest["format"] for _, manifest in exports.values())
    if format != other_format:
        raise ExportError(
            f"{before} has format {format}, {after} has format {other_format}: exports must have the same format"
        )
    variances = [manifest.get("variance_per_use") for _, manifest in exports.values()]
    with tempfile.TemporaryDirectory(prefix="hierogram-") as folder, open_scratch(Path(folder)) as database:
        for table, (path, manifest) in exports.items():
            _load(database, f"{table}_lines", path, manifest)
            # Sum the counts, because some formats write different rules with equal sides, such as lowercased words.
            database.run(f"""
                CREATE VIEW {table} AS
                SELECT source, target, sum(count) FILTER (WHERE NOT isnan(count)) AS count
                  FROM {table}_lines GROUP BY source, target""")
        database.run(f"""
            CREATE TABLE joint_rules AS
            SELECT coalesce(a.source, b.source) AS source, coalesce(a.target, b.target) AS target,
                   a.count AS before, b.count AS after,
                   {_is_significant(*variances)} AS significant,
                   CASE WHEN b.target IS NULL THEN 'removed' WHEN a.target IS NULL THEN 'added'
                        WHEN a.count IS NULL OR b.count IS NULL OR {_IS_SAME} THEN 'same' ELSE 'changed' END AS kind
              FROM a FULL JOIN b ON a.source = b.source AND a.target = b.target""")
        kinds = ("same", "changed", "added", "removed")
        same, changed, added, removed = database.row(
            f"SELECT {', '.join(f'count(*) FILTER (WHERE kind = {literal(kind)})' for kind in kinds)} FROM joint_rules"
        )
        significant, most_significant = None, []
        if None not in variances:
            condition = "significant AND kind <> 'same'"
            [significant] = database.row(f"SELECT count(*) FROM joint_rules WHERE {condition}")
            most_significant = _top_rules(database, condition, "abs(coalesce(after, 0) - coalesce(before, 0))", limit)
        most_added, most_removed, most_changed = (
            _top_rules(database, f"kind = '{kind}'", value, limit)
            for kind, value in (("added", "after"), ("removed", "before"), ("changed", "abs(after - before)"))
        )
        return Difference(
            same, changed, added, removed, most_added, most_removed, most_changed, significant, most_significant
        )


def _is_significant(variance_before: float | None, variance_after: float | None) -> str:
    """Return SQL that checks if a count changed by more than two standard errors."""
    if variance_before is None or variance_after is None:
        return "false"
    # A missing rule may have up to `ROUNDING_STEP` / `ONE_USE` expected uses, because smaller expected uses are rounded
    # at random to 0 or to `ROUNDING_STEP`.
    rounding_step = ROUNDING_STEP / ONE_USE
    before = f"coalesce(a.count, least(b.count, {rounding_step}))"
    after = f"coalesce(b.count, least(a.count, {rounding_step}))"
    error_before = squared_error_sql(before, f"({float(variance_before)!r} * {before})")
    error_after = squared_error_sql(after, f"({float(variance_after)!r} * {after})")
    return f"(abs({after} - {before}) > 2 * sqrt({error_before} + {error_after}))"


def _blocks(path: Path, compression: str, format: Format, features: Features) -> Blocks:
    assert format.read is not None
    numbered = islice(enumerate(_lines(path, compression), 1), int(format.header is not None), None)
    number = 0
    while block := list(islice(numbered, _LINES_PER_BLOCK)):
        rules = []
        for number, line in block:
            try:
                rules.append(format.read(line, features))
            except (IndexError, ValueError, KeyError) as error:
                raise ExportError(f"{path}, line {number}: not a line of a {format.name} export") from error
        sources, targets, counts = zip(*rules, strict=True)
        # Convert missing counts to NaN, which the sums of counts exclude.
        yield number, ["\n".join(sources), "\n".join(targets), np.array(counts, np.float64)]


def _top_rules(database: Scratch, condition: str, value: str, limit: int) -> list[ChangedRule]:
    query = (
        f"SELECT source, target, before, after FROM joint_rules WHERE {condition} "
        f"ORDER BY {value} DESC NULLS LAST, source, target LIMIT {limit}"
    )
    return [ChangedRule(*row) for rows in database.row_blocks(query) for row in rows]
