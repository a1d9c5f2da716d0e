"""A DuckDB database for one export. Data beyond its memory limit are in files.

It loads the store's rules once, in the order of the store, and joins, ranks and sorts them. Results do not depend on
the number of threads: sums are integers, and output is sorted by unique keys.
"""

import os
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple

from hierogram.samplers.grammar.numbers import ONE_COMPOSITION, ONE_MINIMAL_USE, ONE_USE
from hierogram.samplers.grammar.rules import SHORT
from hierogram.samplers.kernel import Report
from hierogram.storage.exports.snapshot import Block, Snapshot
from hierogram.storage.records.grammar import CountKind

if TYPE_CHECKING:
    import numpy as np
    from duckdb import DuckDBPyConnection
    from numpy.typing import NDArray

    from hierogram.samplers.counts.occurrences import RuleLinks
    from hierogram.samplers.forests.compositions import Compositions
    from hierogram.samplers.forests.derivations import Batch
    from hierogram.samplers.forests.records import Fragments


Blocks = Iterator[Block]

MEMORY, _MOST_MEMORY = 256_000_000, 1_000_000_000
"""Maximum memory of the database of a small and of a large store, in bytes."""
_MEMORY_PER_RULE = 1_000

_MEMORY_PER_LOADED_BYTE = 8.0
"""Joins, sorts and output remain in memory if the limit is at least this multiple of the size of the loaded rows."""
_ROW_BYTES = 40
"""Approximate bytes of a row without its texts."""

_PART_BYTES = 1 << 23
_STREAM_ROWS = 20_000
_STREAM_BYTES = 1 << 20

# Values have no quotes and no escapes. The first line is empty and skipped, since U+FEFF at the beginning of a file
# would be read as a byte order mark. `language=zh` in a path must not become a column.
_READ = (
    "delim='\t', quote='', escape='', comment='', new_line='\\n', header=false, skip=1, auto_detect=false,"
    " strict_mode=false, max_line_size=16777216, parallel=false, hive_partitioning=false"
)
_FIRST_LINE = b"\n"
_WRITE = "FORMAT csv, HEADER false, QUOTE '', ESCAPE '', DELIMITER '\n', USE_TMP_FILE false"


class Scratch:
    """The database of one export; `scratch` makes it."""

    def __init__(self, connection: "DuckDBPyConnection", folder: Path, memory: int) -> None:
        self._connection = connection
        self._folder = folder
        self._memory = memory
        self._loaded = 0

    def run(self, statement: str, parameters: list[object] | None = None) -> None:
        """Run a statement."""
        self._connection.execute(statement, parameters)

    def row(self, statement: str) -> tuple[int, ...]:
        """Return the row of a query that has one row."""
        row = self._connection.execute(statement).fetchone()
        assert row is not None
        return row

    def row_blocks(self, query: str) -> Iterator[list[tuple[Any, ...]]]:
        """Yield the rows of a query in blocks of a few thousand."""
        cursor = self._connection.cursor()
        cursor.execute(query)
        while rows := cursor.fetchmany(_STREAM_ROWS):
            yield rows
        cursor.close()

    def arrange(self, table: str, query: str, order: str) -> None:
        """Make a table of a query's rows in a fixed order, which `lines` and `numbers` keep."""
        self.run("SET preserve_insertion_order = true")
        self.run(f"CREATE TABLE {table} AS {query} ORDER BY {order}")

    def numbers(self, table: str, names: Sequence[str]) -> "NDArray[np.float64]":
        """Return numeric columns of an ordered table as float64[rows, names]."""
        import numpy as np

        columns = ", ".join(f"CAST({name} AS DOUBLE) AS {name}" for name in names)
        arrays = self._connection.execute(f"SELECT {columns} FROM {table}").fetchnumpy()
        return np.stack([np.asarray(arrays[name], np.float64) for name in names], axis=1)

    def stage(self, name: str, query: str, *used: str) -> None:
        """Make a named intermediate result between the rules and the output.

        It is a view if memory suffices for all intermediate results. Otherwise it is a table, and the `used` tables are
        dropped, so that only one such table exists at a time.
        """
        if self._loaded * _MEMORY_PER_LOADED_BYTE <= self._memory:
            self.run(f"CREATE VIEW {name} AS {query}")
            return
        self.run(f"CREATE TABLE {name} AS {query}")
        for table in used:
            self.run(f"DROP TABLE {table}")

    def lines(self, query: str) -> Iterator[bytes]:
        """Yield the single text column of a query as lines, in byte blocks of any length.

        The database writes into a pipe while the caller reads.
        """
        with ExitStack() as stack:
            read_end, write_end = os.pipe()
            stream = stack.enter_context(open(read_end, "rb", buffering=0))
            writer = stack.enter_context(ThreadPoolExecutor(1, thread_name_prefix="export"))
            # The pipe closes before the thread is joined, so an early end of the reader also ends the writer.
            stack.callback(stream.close)
            written = writer.submit(self._write_lines, query, write_end)
            while piece := stream.read(_STREAM_BYTES):
                yield piece
            written.result()

    def _write_lines(self, query: str, pipe: int) -> None:
        try:
            self.run("SET preserve_insertion_order = true")
            self.run(f"COPY ({query}) TO '/dev/fd/{pipe}' ({_WRITE})")
        finally:
            os.close(pipe)

    def load(self, table: str, columns: dict[str, str], blocks: Blocks, progress: Report | None = None) -> None:
        """Append blocks to a table with these columns (name to type), which is made if missing.

        Empty values become NULL. The next block is read from the store while the database loads this one.
        """
        definitions = ", ".join(f"{name} {kind}" for name, kind in columns.items())
        self.run(f"CREATE TABLE IF NOT EXISTS {table} ({definitions})")
        with ThreadPoolExecutor(1, thread_name_prefix="export") as reader:
            number = 0
            pending = reader.submit(self._write_part, blocks, number, len(columns))
            while (part := pending.result()) is not None:
                number += 1
                pending = reader.submit(self._write_part, blocks, number, len(columns))
                paths, reached = part
                files = (
                    f"read_csv({quoted(str(path))}, {_READ}, columns={{'{name}': '{kind}'}})"
                    for path, (name, kind) in zip(paths, columns.items(), strict=True)
                )
                # One file per column, joined by position.
                self.run(f"INSERT INTO {table} SELECT * FROM {' POSITIONAL JOIN '.join(files)}")
                for path in paths:
                    path.unlink()
                if progress:
                    progress(reached)

    def _write_part(self, blocks: Blocks, number: int, columns: int) -> tuple[list[Path], int] | None:
        paths = [self._folder / f"{number}.{column}" for column in range(columns)]
        size = reached = 0
        with ExitStack() as stack:
            files: list[BinaryIO] = [stack.enter_context(path.open("wb")) for path in paths]
            for file in files:
                file.write(_FIRST_LINE)
            for rows, block in blocks:
                reached = rows
                for file, column in zip(files, block, strict=True):
                    size += file.write(column.encode()) + file.write(b"\n")
                self._loaded += _ROW_BYTES * (block[0].count("\n") + 1)
                if size >= _PART_BYTES:
                    break
        self._loaded += size
        return (paths, reached) if size else None

    def insert(self, table: str, rows: Sequence[tuple[object, ...]]) -> None:
        """Append a few thousand rows of simple values to a table, through files."""
        kinds = {name: kind for name, kind, *_ in self._connection.execute(f"DESCRIBE {table}").fetchall()}
        block = ["\n".join(map(str, column)) for column in zip(*rows, strict=True)]
        self.load(table, kinds, iter([(len(rows), block)]))


def quoted(value: str) -> str:
    """Return a text as an SQL literal."""
    return "'" + value.replace("'", "''") + "'"


def memory_for(rules: int) -> int:
    """Return the maximum memory of the database of a store with this number of rules in use, in bytes.

    It is less than learning the store takes.
    """
    return min(max(MEMORY, _MEMORY_PER_RULE * rules), _MOST_MEMORY)


@contextmanager
def scratch(folder: Path, memory: int = MEMORY) -> Iterator[Scratch]:
    """Open a database whose files are in a folder, and close it at the end of the block."""
    import duckdb

    spill = folder / "spill"
    spill.mkdir()
    connection = duckdb.connect(
        ":memory:",
        config={
            "memory_limit": f"{memory}B",
            "threads": max(1, min(2, os.cpu_count() or 1)),
            "temp_directory": str(spill),
            "preserve_insertion_order": "false",
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
        },
    )
    try:
        yield Scratch(connection, folder, memory)
    finally:
        connection.close()


_PAIRS_PER_READ = 2_000
_SIDES = {"source": "VARCHAR", "target": "VARCHAR"}
_USES = {"uses": "BIGINT"}
_AGGREGATES = {"minimal_uses": "sum"}
"""SQL aggregate of each column that differs between the parts of a rule."""
LINKED = _SIDES | {"alignment": "VARCHAR"} | _USES | {"composed": "BIGINT"}
"""Columns of rule uses by their links: number of uses in derivations, and number of compositions."""


_MAX_LOOKUP_SHARE = 0.02
"""Share of matching rules below which looking up rules by their target sides is faster than reading all rules."""


class ReadState(NamedTuple):
    """Position up to which a store's rules were read: ids of the newest pair with a derivation and of the newest rule.

    `seen` is the number of times that all rules are seen, for discounts.
    """

    pair: int
    rule: int
    seen: float


def load_rules(
    scratch: Scratch, snapshot: Snapshot, corpus: int | None, count_kind: CountKind, shape: Collection[str],
    progress: Report | None = None,
) -> None:  # fmt: skip
    """Make the view `rules` with id, source, target, alignment (empty), the columns `shape`, and the count as `uses`.

    Counts are from the pairs of one `corpus` (its id), or from all pairs (None). The id of a rule is local to this
    database.
    """
    kinds = _SIDES | dict.fromkeys(shape, "INTEGER") | _USES
    if corpus is None:
        scratch.load("loaded", kinds, snapshot.rule_blocks((*_SIDES, *shape), count_kind), progress)
    else:
        scratch.load("parts", kinds, _recount(snapshot, corpus, count_kind, shape, progress))
        shape_columns = "".join(f"{_AGGREGATES.get(name, 'min')}({name}) AS {name}, " for name in shape)
        scratch.run(f"""
            CREATE TABLE loaded AS
            SELECT source, target, {shape_columns}CAST(sum(uses) AS BIGINT) AS uses FROM parts
             WHERE uses > 0 GROUP BY source, target""")
        scratch.run("DROP TABLE parts")
    _view_loaded(scratch, shape)


def load_matching_rules(
    scratch: Scratch, snapshot: Snapshot, count_kind: CountKind, shape: Collection[str], keeps: Callable[[str], bool],
    progress: Report | None = None,
) -> None:  # fmt: skip
    """Make the view `rules`, as `load_rules` does, of the rules whose source side is kept.

    The table `same_target` (target, uses) has all rules with the target side of a kept rule, or all rules.
    """
    rules = snapshot.find_rules(keeps, progress or (lambda _: None), count_kind)
    rows = snapshot.rules_beside((*_SIDES, *shape), {"id": rules}, count_kind)
    scratch.load("loaded", _SIDES | dict.fromkeys(shape, "INTEGER") | _USES, rows)
    _view_loaded(scratch, shape)
    targets = [target for rows in scratch.row_blocks("SELECT DISTINCT target FROM rules") for (target,) in rows]
    _, last = snapshot.newest()
    if len(rules) < last * _MAX_LOOKUP_SHARE:
        rows = snapshot.rules_beside(("target",), {"target": targets}, count_kind)
    else:
        rows = snapshot.rule_blocks(("target",), count_kind)
    scratch.load("same_target", {"target": "VARCHAR"} | _USES, rows)
    scratch.run("UPDATE same_target SET target = '' WHERE target IS NULL")


def _view_loaded(scratch: Scratch, shape: Collection[str]) -> None:
    shape_columns = "".join(f"{name}, " for name in shape)
    scratch.run(f"""
        CREATE VIEW rules AS
        SELECT rowid AS id, coalesce(source, '') AS source, coalesce(target, '') AS target, '' AS alignment,
               {shape_columns}uses
          FROM loaded""")


def _recount(
    snapshot: Snapshot, corpus: int, count_kind: CountKind, shape: Collection[str], progress: Report | None
) -> Blocks:
    """Yield the rules of a corpus's pairs with their counts, in blocks of pairs. Damaged pairs are omitted."""
    # Import late, since this loads the compiled samplers.
    from hierogram.daemon.learning.kinds.kind import StoredSamples
    from hierogram.daemon.learning.kinds.stored import load_undamaged
    from hierogram.samplers.grammar.columns import empty_blobs

    settings = snapshot.settings()
    pairs = 0
    for rows in snapshot.iterate_derivations(_PAIRS_PER_READ, corpus):
        undamaged, (loaded, state, averages, *_) = load_undamaged(rows, settings)
        is_drawn = count_kind is CountKind.DRAWN
        records = empty_blobs(len(undamaged)) if is_drawn else averages
        rules = loaded.rule_deltas(None, StoredSamples(loaded.trees(state), records), settings)
        pairs += len(rows)
        if progress:
            progress(pairs)
        uses = rules.counts if is_drawn else (rules.expected_uses * ONE_USE).astype("int64")
        if count_kind is CountKind.TRANSLATION:
            uses = uses + ONE_MINIMAL_USE * rules.minimal_uses
        if (uses > 0).any():
            # The last line of a block has no line end.
            sides = (column.content[:-1].tobytes().decode() for column in (rules.sources, rules.targets))
            numbers = [*(rules.numbers(name) for name in shape), uses]
            yield pairs, [*sides, *("\n".join(map(str, column.tolist())) for column in numbers)]


def load_pair_uses(
    scratch: Scratch, snapshot: Snapshot, corpus: int | None, count_kind: CountKind, shape: Collection[str],
    min_uses: float | None, linked: bool, progress: Report | None = None, keeps: Callable[[str], bool] | None = None,
) -> None:  # fmt: skip
    """Add compositions to the view `rules` if `min_uses` is given, and links if `linked`.

    Adds compositions that occur at least twice in the pairs, and compositions of more than `SHORT` source symbols whose
    source side is expected at least `min_uses` times. Removes rules used less than twice whose source side is expected
    less often, unless they are compositions or rules of minimal derivations. `shape` has `minimal_uses`. Links are from
    `link_rules`, for rules with a kept source side. Nothing changes if no pair has a derivation.
    """
    if next(snapshot.iterate_derivations(1, corpus), None) is None:
        return
    text = None if min_uses is None else _TextStatistics(snapshot, corpus, min_uses)
    text_shape = () if text is None else shape
    blocks = _pair_uses(snapshot, corpus, count_kind if linked else None, text, text_shape, keeps=keeps)
    scratch.load("inner_uses", LINKED | dict.fromkeys(text_shape, "INTEGER"), blocks, progress)
    if text is not None:
        _compose(scratch, text, shape)
    if linked:
        link_rules(scratch, composed=text is not None)
    if text is not None:
        scratch.run("DROP TABLE composed")
    scratch.run("DROP TABLE inner_uses")


def load_new_rules(
    scratch: Scratch, snapshot: Snapshot, since: ReadState, count_kind: CountKind, shape: Collection[str]
) -> bool:
    """Make the view `rules`, as `load_rules` does, of the rules of new pairs and all rules that share a side with one.

    Rules of new pairs have the links of `link_rules`. The table `fresh` (source, target) has the new rules. Returns
    whether a pair has had a derivation only since then.
    """
    if next(snapshot.iterate_derivations(1, after_id=since.pair), None) is None:
        return False
    scratch.load("inner_uses", LINKED, _pair_uses(snapshot, None, count_kind, None, (), since.pair))
    sides = {side: _distinct_sides(scratch, side) for side in _SIDES}
    columns = (*_SIDES, *shape, f"CASE WHEN id > {since.rule} THEN 1 ELSE 0 END")
    kinds = _SIDES | dict.fromkeys((*shape, "fresh"), "INTEGER") | _USES
    scratch.load("loaded", kinds, snapshot.rules_beside(columns, sides, count_kind))
    scratch.run("""
        CREATE TABLE fresh AS
        SELECT coalesce(source, '') AS source, coalesce(target, '') AS target FROM loaded WHERE fresh = 1
        INTERSECT
        SELECT coalesce(source, ''), coalesce(target, '') FROM inner_uses WHERE uses > 0""")
    _view_loaded(scratch, shape)
    link_rules(scratch)
    scratch.run("DROP TABLE inner_uses")
    return True


def _distinct_sides(scratch: Scratch, side: str) -> list[str]:
    rows = scratch.row_blocks(f"SELECT DISTINCT coalesce({side}, '') FROM inner_uses WHERE uses > 0")
    return [text for texts in rows for (text,) in texts]


def _compose(scratch: Scratch, text: "_TextStatistics", shape: Collection[str]) -> None:
    """Add the compositions that new text needs to the table `loaded`, and delete the rules that it does not need.

    The table `composed` has these compositions.
    """
    shape_columns = "".join(f", min({name}) AS {name}" for name in shape)
    scratch.run(f"""
        CREATE TABLE composed AS
        SELECT source, target, CAST(sum(composed) AS BIGINT) AS uses{shape_columns} FROM inner_uses
         WHERE composed > 0 GROUP BY source, target""")
    once = f"uses < {_TWICE * ONE_COMPOSITION}"
    scratch.run(f"DELETE FROM composed WHERE {once} AND len(string_split(source, ' ')) <= {SHORT}")
    text.delete_seldom(scratch, "composed", f"composed WHERE {once}")
    seldom = f"minimal_uses = 0 AND uses < {_TWICE * ONE_USE}"
    text.delete_seldom(scratch, "loaded", f"loaded ANTI JOIN composed USING (source, target) WHERE {seldom}")
    # Updates would need memory for each changed row.
    shape_columns = "".join(f", coalesce(loaded.{name}, composed.{name}) AS {name}" for name in shape)
    scratch.run(f"""
        CREATE TABLE extended AS
        SELECT source, target, coalesce(loaded.uses, 0) + coalesce(composed.uses, 0) AS uses{shape_columns}
          FROM loaded FULL JOIN composed USING (source, target)""")
    scratch.run("DROP TABLE loaded")
    scratch.run("ALTER TABLE extended RENAME TO loaded")


_TWICE = 2
_BUCKETS = 1 << 25
"""Number of hash buckets. A collision is rare and only writes a composition needlessly."""


class _TextStatistics:
    """The text of all pairs: n-grams, and by hashes in a table of fixed size the compositions that occur twice."""

    def __init__(self, snapshot: Snapshot, corpus: int | None, min_uses: float) -> None:
        """Read all pairs. A rule is kept if its source side is expected at least `min_uses` times in new text."""
        import numpy as np

        # Import late, since this loads the compiled samplers.
        from hierogram.daemon.learning.kinds.pairs import ForestPairs
        from hierogram.daemon.learning.kinds.stored import load_undamaged
        from hierogram.samplers.forests.compositions import add_ngrams, empty_ngrams

        self._min_uses, self._settings = min_uses, snapshot.settings()
        self._bucket_counts = np.zeros(_BUCKETS, np.uint8)
        self._ngrams = empty_ngrams()
        for rows in snapshot.iterate_derivations(_PAIRS_PER_READ, corpus):
            loaded = load_undamaged(rows, self._settings)[1].loaded
            assert isinstance(loaded, ForestPairs)
            batch = loaded.batch
            self._ngrams = add_ngrams(self._ngrams, batch)
            buckets, times = np.unique(self._list_compositions(batch).keys % np.uint64(_BUCKETS), return_counts=True)
            self._bucket_counts[buckets] = np.minimum(self._bucket_counts[buckets] + times, _TWICE)

    def _list_compositions(self, batch: "Batch") -> "Compositions":
        # Import late, since this loads the compiled samplers.
        from hierogram.samplers.forests.compositions import compositions

        return compositions(batch, ONE_COMPOSITION, self._ngrams)

    def compositions(self, batch: "Batch") -> "Fragments":
        """Return the compositions of pairs that occur twice or whose source side is expected `min_uses` times."""
        import numpy as np

        found = self._list_compositions(batch)
        twice = self._bucket_counts[found.keys % np.uint64(_BUCKETS)] >= _TWICE
        return found.chosen(twice | (found.expected >= self._min_uses))

    def delete_seldom(self, scratch: Scratch, table: str, rows: str) -> None:
        """Delete the `rows` of a table whose source side is expected less than `min_uses` times."""
        # Import late, since this loads the compiled samplers.
        from hierogram.samplers.forests.compositions import expected_occurrences

        scratch.run("CREATE TABLE seldom_rows (row BIGINT)")
        for rows_of_sources in scratch.row_blocks(f"SELECT {table}.rowid, coalesce(source, '') FROM {rows}"):
            expected = expected_occurrences(
                self._ngrams, [source for _, source in rows_of_sources], self._settings.key_salt
            )
            seldom_rows = [
                (row,)
                for (row, _), times in zip(rows_of_sources, expected.tolist(), strict=True)
                if times < self._min_uses
            ]
            if seldom_rows:
                scratch.insert("seldom_rows", seldom_rows)
        scratch.run(f"DELETE FROM {table} WHERE rowid IN (SELECT row FROM seldom_rows)")
        scratch.run("DROP TABLE seldom_rows")


def link_rules(scratch: Scratch, composed: bool = False) -> None:
    """Set the alignment of each rule in the view `rules` to its most frequent one in the table `inner_uses`.

    Includes the uses in compositions of the table `composed` if `composed`. Ties are broken by sort order.
    """
    compositions = """
            UNION ALL
            SELECT source, target, alignment, composed AS uses
              FROM inner_uses SEMI JOIN composed USING (source, target) WHERE composed > 0"""
    scratch.run(f"""
        CREATE TABLE inner_alignments AS
        WITH used AS (
            SELECT source, target, alignment, uses FROM inner_uses WHERE uses > 0{compositions if composed else ""}
        )
        SELECT source, target, coalesce(alignment, '') AS alignment FROM (
            SELECT coalesce(source, '') AS source, coalesce(target, '') AS target, alignment, sum(uses) AS uses
              FROM used GROUP BY source, target, alignment
        )
        QUALIFY row_number() OVER (PARTITION BY source, target ORDER BY uses DESC, coalesce(alignment, '')) = 1""")
    scratch.run("""
        CREATE TABLE linked AS
        SELECT rules.* EXCLUDE (id) REPLACE (coalesce(inner_alignments.alignment, '') AS alignment)
          FROM rules LEFT JOIN inner_alignments USING (source, target)""")
    scratch.run("DROP VIEW rules")
    scratch.run("DROP TABLE loaded")
    scratch.run("ALTER TABLE linked RENAME TO loaded")
    scratch.run("DROP TABLE inner_alignments")
    scratch.run("CREATE VIEW rules AS SELECT rowid AS id, * FROM loaded")


def _pair_uses(
    snapshot: Snapshot, corpus: int | None, count_kind: CountKind | None, text: _TextStatistics | None,
    shape: Collection[str], after: int = 0, keeps: Callable[[str], bool] | None = None,
) -> Blocks:  # fmt: skip
    """Yield columns `LINKED` and `shape` of the rules that pairs use, grouped by rule and links.

    The rules are from derivations, if `count_kind` lists them and their source side is kept, and from compositions of a
    text. The pairs have ids above `after`. Damaged pairs are omitted.
    """
    import numpy as np

    # Import late, since this loads the compiled samplers.
    from hierogram.daemon.learning.kinds.pairs import ForestPairs
    from hierogram.daemon.learning.kinds.stored import load_undamaged
    from hierogram.samplers.counts.deltas import add_fragments, add_minimal, add_state, empty_deltas
    from hierogram.samplers.counts.occurrences import fragment_links, rule_links, uses_by_links
    from hierogram.samplers.counts.texts import link_texts, number_texts, take_texts
    from hierogram.samplers.forests.derivations import empty_state
    from hierogram.samplers.forests.records import list_fragments
    from hierogram.samplers.grammar.columns import empty_blobs

    settings = snapshot.settings()
    pairs = 0
    for rows in snapshot.iterate_derivations(_PAIRS_PER_READ, corpus, after):
        undamaged, (loaded, state, averages, *_) = load_undamaged(rows, settings)
        # Only kinds of grammar with `LINKS` are passed here, and their pairs are of this type.
        assert isinstance(loaded, ForestPairs)
        batch, deltas, composed = loaded.batch, empty_deltas(), None
        weighted_links: list[tuple[RuleLinks, NDArray[np.int64]]] = []
        if text is not None:
            composed = text.compositions(batch)
            deltas = add_fragments(deltas, batch, composed)
        if count_kind is not None:
            records = empty_blobs(len(undamaged)) if count_kind is CountKind.DRAWN else averages
            fragments = list_fragments(records)
            deltas = add_fragments(deltas, batch, fragments)
            weighted_links.append((fragment_links(deltas, batch, fragments), fragments.weights))
            # A pair without recorded averages has the expected uses of its present derivation.
            without_record = np.diff(records.offsets) == 0
            deltas = add_state(deltas, batch, state, (1, 0, 0, 0), np.flatnonzero(without_record))
            weighted_links.append(_weighted(rule_links(deltas, batch, state, without_record), ONE_USE))
        if count_kind is CountKind.TRANSLATION:
            all_pairs, minimal_state = np.ones(len(undamaged), np.bool_), empty_state(batch.forests)
            minimal_state.cut[:] = 1
            deltas = add_minimal(deltas, batch, np.arange(len(undamaged)), 1)
            weighted_links.append(_weighted(rule_links(deltas, batch, minimal_state, all_pairs), ONE_MINIMAL_USE))
        derived = len(weighted_links)
        rules = loaded.rules(deltas, np.arange(deltas.entries))
        if keeps is not None:
            is_kept = np.fromiter(map(keeps, rules.sources.strings()), np.bool_, deltas.entries)
            weighted_links = [
                (links_of_chunk, np.where(is_kept[links_of_chunk.entries], weights, 0))
                for links_of_chunk, weights in weighted_links
            ]
        if composed is not None:
            weighted_links.append((fragment_links(deltas, batch, composed), composed.weights))
        pairs += len(rows)
        links, uses = uses_by_links(
            [links_of_chunk for links_of_chunk, _ in weighted_links], [weights for _, weights in weighted_links]
        )
        if not len(uses):
            continue
        shape_numbers = (rules.numbers(name)[links.entries] for name in shape)
        numbers = (uses[:, :derived].sum(axis=1), uses[:, derived:].sum(axis=1), *shape_numbers)
        columns = (
            take_texts(rules.sources, links.entries),
            take_texts(rules.targets, links.entries),
            link_texts(links),
            *(number_texts(column.astype(np.int64)) for column in numbers),
        )
        # The last line of a block has no line end.
        yield pairs, [column.content[:-1].tobytes().decode() for column in columns]


def _weighted(links: "RuleLinks", weight: int) -> "tuple[RuleLinks, NDArray[np.int64]]":
    """Return the links of a rule, each with the same weight."""
    import numpy as np

    return links, np.full(len(links.entries), weight, np.int64)
