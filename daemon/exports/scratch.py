"""A scratch database for one export: DuckDB, within a bound of memory; what exceeds it goes to files.

The store's rules are loaded into it once, in the order in which they lie there; joining, ranking and sorting a grammar
is its work. Everything that is computed in it is a function of the rows alone, whatever the threads: sums are of whole
numbers, and what is written is sorted by what is unique.
"""

import os
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

from hierogram.daemon.exports.options import Counted
from hierogram.samplers.grammar.numbers import ONE_COMPOSITION, ONE_MINIMAL_USE, ONE_USE
from hierogram.samplers.grammar.rules import SHORT
from hierogram.storage.exports.snapshot import Block, Snapshot
from hierogram.storage.records import PairRow, Settings

if TYPE_CHECKING:
    import numpy as np
    from duckdb import DuckDBPyConnection
    from numpy.typing import NDArray

    from hierogram.daemon.learning.kinds.pairs import ForestPairs
    from hierogram.samplers.counts.deltas import CountDeltas
    from hierogram.samplers.counts.occurrences import RuleLinks
    from hierogram.samplers.forests.compositions import Compositions
    from hierogram.samplers.forests.recurrence import Ngrams


Blocks = Iterator[Block]
Heard = Callable[[int], None]

MEMORY = 256_000_000
"""Bound of the scratch database's memory, bytes."""

_ROOM = 2.3
"""Joining, sorting and writing at once stays in memory where that is this many times as large as what was loaded."""
_ROW_BYTES = 40
"""What a row takes beside its texts, about."""

_PART_BYTES = 1 << 23
_STREAM_ROWS = 20_000
_STREAM_BYTES = 1 << 20

# No quotes and no escapes. The first line is left out: at the beginning of a file U+FEFF would be taken for a mark.
# A name such as `language=zh` in a path is not a column.
_READ = (
    "delim='\t', quote='', escape='', comment='', new_line='\\n', header=false, skip=1, auto_detect=false,"
    " strict_mode=false, max_line_size=16777216, parallel=false, hive_partitioning=false"
)
_FIRST_LINE = b"\n"
_WRITE = "FORMAT csv, HEADER false, QUOTE '', ESCAPE '', DELIMITER '\n', USE_TMP_FILE false"


class Scratch:
    """The scratch database; made by `scratch`."""

    def __init__(self, connection: "DuckDBPyConnection", folder: Path, memory: int) -> None:
        self._connection = connection
        self._folder = folder
        self._memory = memory
        self._loaded = 0

    def run(self, statement: str, parameters: list[object] | None = None) -> None:
        """Run a statement."""
        self._connection.execute(statement, parameters)

    def row(self, statement: str) -> tuple[int, ...]:
        """Return the one row that a query gives."""
        found = self._connection.execute(statement).fetchone()
        assert found is not None
        return found

    def columns(self, query: str) -> Iterator[list[tuple[Any, ...]]]:
        """Yield the rows of a query, some thousand at a time."""
        cursor = self._connection.cursor()
        cursor.execute(query)
        while rows := cursor.fetchmany(_STREAM_ROWS):
            yield rows
        cursor.close()

    def arrange(self, table: str, query: str, order: str) -> None:
        """Make a table of a query's rows in an order, in which `lines` and `numbers` then give them."""
        self.run("SET preserve_insertion_order = true")
        self.run(f"CREATE TABLE {table} AS {query} ORDER BY {order}")

    def numbers(self, table: str, names: Sequence[str]) -> "NDArray[np.float64]":
        """Return columns of numbers of an arranged table, float64[rows, names]."""
        import numpy as np

        columns = ", ".join(f"CAST({name} AS DOUBLE) AS {name}" for name in names)
        found = self._connection.execute(f"SELECT {columns} FROM {table}").fetchnumpy()
        return np.stack([np.asarray(found[name], np.float64) for name in names], axis=1)

    def stage(self, name: str, query: str, *used: str) -> None:
        """Make a step between the rules and what is written, by a name.

        Where there is room for all steps at once it is a view. Otherwise a table, and the tables that were `used` up
        go, so that no two steps share the bound of memory.
        """
        if self._loaded * _ROOM <= self._memory:
            self.run(f"CREATE VIEW {name} AS {query}")
            return
        self.run(f"CREATE TABLE {name} AS {query}")
        for table in used:
            self.run(f"DROP TABLE {table}")

    def lines(self, query: str) -> Iterator[bytes]:
        """Yield a query's one column of texts in its order, as lines, in pieces that end anywhere.

        The database writes them into a pipe while they are taken out.
        """
        with ExitStack() as stack:
            read_end, write_end = os.pipe()
            taken = stack.enter_context(open(read_end, "rb", buffering=0))
            writer = stack.enter_context(ThreadPoolExecutor(1, thread_name_prefix="export"))
            # Closed before the thread is waited for, so that a reader who stops early ends the writing too.
            stack.callback(taken.close)
            written = writer.submit(self._write_lines, query, write_end)
            while piece := taken.read(_STREAM_BYTES):
                yield piece
            written.result()

    def _write_lines(self, query: str, pipe: int) -> None:
        try:
            self.run("SET preserve_insertion_order = true")
            self.run(f"COPY ({query}) TO '/dev/fd/{pipe}' ({_WRITE})")
        finally:
            os.close(pipe)

    def load(self, table: str, columns: dict[str, str], blocks: Blocks, heard: Heard | None = None) -> None:
        """Append blocks to a table (made if new) with the columns, name to type. Empty values come as NULL.

        The next part is read from the store while the last one is taken in.
        """
        made = ", ".join(f"{name} {kind}" for name, kind in columns.items())
        self.run(f"CREATE TABLE IF NOT EXISTS {table} ({made})")
        with ThreadPoolExecutor(1, thread_name_prefix="export") as reader:
            number = 0
            waiting = reader.submit(self._write_part, blocks, number, len(columns))
            while (part := waiting.result()) is not None:
                number += 1
                waiting = reader.submit(self._write_part, blocks, number, len(columns))
                paths, reached = part
                files = (
                    f"read_csv({quoted(str(path))}, {_READ}, columns={{'{name}': '{kind}'}})"
                    for path, (name, kind) in zip(paths, columns.items(), strict=True)
                )
                # Files of one column each, put side by side.
                self.run(f"INSERT INTO {table} SELECT * FROM {' POSITIONAL JOIN '.join(files)}")
                for path in paths:
                    path.unlink()
                if heard:
                    heard(reached)

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
        """Append a few thousand rows of simple values to a table, by way of files."""
        kinds = {name: kind for name, kind, *_ in self._connection.execute(f"DESCRIBE {table}").fetchall()}
        block = ["\n".join(map(str, column)) for column in zip(*rows, strict=True)]
        self.load(table, kinds, iter([(len(rows), block)]))


def quoted(value: str) -> str:
    """Return a text as SQL writes it."""
    return "'" + value.replace("'", "''") + "'"


@contextmanager
def scratch(folder: Path, memory: int = MEMORY) -> Iterator[Scratch]:
    """A scratch database that keeps its files in the folder."""
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


_PAIRS_A_READ = 2_000
_SIDES = {"source": "VARCHAR", "target": "VARCHAR"}
_USES = {"uses": "BIGINT"}
_TOGETHER = {"minimal_uses": "sum"}
"""How a column of several parts becomes one where it is not the same in all."""
_LINKED = {"source": "VARCHAR", "target": "VARCHAR", "alignment": "VARCHAR", "uses": "BIGINT"}


def load_rules(
    scratch: Scratch, snapshot: Snapshot, corpus: int | None, counted: Counted, shape: Collection[str],
    heard: Heard | None = None,
) -> None:  # fmt: skip
    """Make the view `rules`: id, source, target, alignment (empty), the columns `shape`, and the count as `uses`.

    It counts the pairs of a corpus (its id; None: all pairs). The id is one within the scratch database.
    """
    kinds = _SIDES | dict.fromkeys(shape, "INTEGER") | _USES
    if corpus is None:
        expected, minimal = counted is not Counted.DRAWN, counted is Counted.TRANSLATION
        blocks = snapshot.rule_blocks((*_SIDES, *shape), expected=expected, minimal=minimal)
        scratch.load("loaded", kinds, blocks, heard)
    else:
        scratch.load("parts", kinds, _recounted(snapshot, corpus, counted, shape, heard))
        same = "".join(f"{_TOGETHER.get(name, 'min')}({name}) AS {name}, " for name in shape)
        scratch.run(f"""
            CREATE TABLE loaded AS
            SELECT source, target, {same}CAST(sum(uses) AS BIGINT) AS uses FROM parts
             WHERE uses > 0 GROUP BY source, target""")
        scratch.run("DROP TABLE parts")
    shown = "".join(f"{name}, " for name in shape)
    scratch.run(f"""
        CREATE VIEW rules AS
        SELECT rowid AS id, coalesce(source, '') AS source, coalesce(target, '') AS target, '' AS alignment,
               {shown}uses
          FROM loaded""")


def _recounted(
    snapshot: Snapshot, corpus: int, counted: Counted, shape: Collection[str], heard: Heard | None
) -> Blocks:
    """Count the rules that a corpus's pairs use again, a part of the pairs at a time."""
    # Here, because it brings the compiled samplers with it.
    from hierogram.daemon.learning.kinds.kind import Drawn
    from hierogram.daemon.learning.kinds.registry import kind_of
    from hierogram.samplers.grammar.columns import join_blobs, no_blobs

    settings = snapshot.settings()
    pairs = 0
    for rows in snapshot.iterate_derivations(_PAIRS_A_READ, corpus):
        loaded = kind_of(settings).load(rows, settings)
        trees = loaded.trees(loaded.decode(join_blobs([row.current or b"" for row in rows])))
        drawn = counted is Counted.DRAWN
        records = no_blobs(len(rows)) if drawn else join_blobs([row.averages or b"" for row in rows])
        rules = loaded.rule_deltas(None, Drawn(trees, records), settings)
        pairs += len(rows)
        if heard:
            heard(pairs)
        uses = rules.counts if drawn else (rules.expected_uses * ONE_USE).astype("int64")
        if counted is Counted.TRANSLATION:
            uses = uses + ONE_MINIMAL_USE * rules.minimal_uses
        if (uses > 0).any():
            # The last line of a block has no end.
            sides = (column.content[:-1].tobytes().decode() for column in (rules.sources, rules.targets))
            numbers = [*(rules.numbers(name) for name in shape), uses]
            yield pairs, [*sides, *("\n".join(map(str, column.tolist())) for column in numbers)]


def load_compositions(
    scratch: Scratch, snapshot: Snapshot, corpus: int | None, shape: Collection[str], least: float,
    heard: Heard | None = None,
) -> None:  # fmt: skip
    """Add to the view `rules` the compositions that new text asks for, with their uses and links; take others out.

    Compositions are those that pairs have twice at least, and those with more than `SHORT` source symbols whose source
    side is expected `least` times. Rules of the view that are no compositions, nor of minimal derivations, and are used
    less than twice, are left out where theirs is not. `shape` has `minimal_uses`.
    """
    text = _Text(snapshot, corpus)
    kinds = _LINKED | dict.fromkeys(shape, "INTEGER")
    scratch.load("compositions", kinds, text.compositions(least, shape, heard))
    of_shape = "".join(f", min({name}) AS {name}" for name in shape)
    scratch.run(f"""
        CREATE TABLE composed AS
        SELECT source, target, CAST(sum(uses) AS BIGINT) AS uses{of_shape} FROM compositions
         GROUP BY source, target""")
    once = f"uses < {_TWICE * ONE_COMPOSITION}"
    scratch.run(f"DELETE FROM composed WHERE {once} AND len(string_split(source, ' ')) <= {SHORT}")
    text.leave_out(scratch, "composed", f"composed WHERE {once}", least)
    seldom = f"minimal_uses = 0 AND uses < {_TWICE * ONE_USE}"
    text.leave_out(scratch, "loaded", f"loaded ANTI JOIN composed USING (source, target) WHERE {seldom}", least)
    scratch.run("""
        UPDATE loaded SET uses = loaded.uses + composed.uses FROM composed
         WHERE loaded.source = composed.source AND loaded.target = composed.target""")
    names = ", ".join(("source", "target", "uses", *shape))
    scratch.run(f"""
        INSERT INTO loaded ({names})
        SELECT {names} FROM composed ANTI JOIN loaded USING (source, target)""")
    scratch.run(f"""
        CREATE TABLE inner_uses AS
        SELECT {", ".join(_LINKED)} FROM compositions SEMI JOIN composed USING (source, target)""")
    scratch.run("DROP TABLE composed")
    scratch.run("DROP TABLE compositions")


_TWICE = 2
_BUCKETS = 1 << 25
"""Rules share a bucket by chance so seldom that few compositions are written out in vain."""


class _Text:
    """The text of all pairs: its n-grams, and which compositions it has twice, by keys in a table of fixed size."""

    def __init__(self, snapshot: Snapshot, corpus: int | None) -> None:
        import numpy as np

        self._snapshot, self._corpus, self._settings = snapshot, corpus, snapshot.settings()
        self._met = np.zeros(_BUCKETS, np.uint8)
        self._ngrams: Ngrams | None = None
        for rows in snapshot.iterate_derivations(_PAIRS_A_READ, corpus):
            # Here, because it brings the compiled samplers with it.
            from hierogram.samplers.forests.recurrence import add_ngrams, no_ngrams

            if self._ngrams is None:
                self._ngrams = no_ngrams(sum(snapshot.status().pairs.values()))
            loaded, found = self._compose(rows, self._ngrams)
            self._ngrams = add_ngrams(self._ngrams, loaded.batch)
            different, times = np.unique(found.keys % np.uint64(_BUCKETS), return_counts=True)
            self._met[different] = np.minimum(self._met[different] + times, _TWICE)

    def compositions(self, least: float, shape: Collection[str], heard: Heard | None) -> Blocks:
        """Yield compositions, a part of the pairs at a time.

        But for those that are surely met once and have a source side that is expected less than `least` times.
        """
        import numpy as np

        if self._ngrams is None:
            return
        # Here, because it brings the compiled samplers with it.
        from hierogram.samplers.counts.deltas import add_fragments, empty_deltas
        from hierogram.samplers.counts.occurrences import fragment_links

        pairs = 0
        for rows in self._snapshot.iterate_derivations(_PAIRS_A_READ, self._corpus):
            pairs += len(rows)
            if heard:
                heard(pairs)
            loaded, found = self._compose(rows, self._ngrams)
            twice = self._met[found.keys % np.uint64(_BUCKETS)] >= _TWICE
            fragments = found.chosen(twice | (found.expected >= least))
            deltas = add_fragments(empty_deltas(), loaded.batch, fragments)
            links = fragment_links(deltas, loaded.batch, fragments)
            if columns := _texts(loaded, deltas, [(links, fragments.weights.tolist())], shape):
                yield pairs, columns

    def leave_out(self, scratch: Scratch, table: str, rows: str, least: float) -> None:
        """Delete those of the rows of a table whose source side is expected less than `least` times."""
        if self._ngrams is None:
            return
        # Here, because it brings the compiled samplers with it.
        from hierogram.samplers.forests.recurrence import expected_occurrences

        scratch.run("CREATE TABLE unasked (place BIGINT)")
        for some in scratch.columns(f"SELECT {table}.rowid, coalesce(source, '') FROM {rows}"):
            expected = expected_occurrences(self._ngrams, [source for _, source in some], self._settings.key_salt)
            unasked = [(place,) for (place, _), times in zip(some, expected.tolist(), strict=True) if times < least]
            if unasked:
                scratch.insert("unasked", unasked)
        scratch.run(f"DELETE FROM {table} WHERE rowid IN (SELECT place FROM unasked)")
        scratch.run("DROP TABLE unasked")

    def _compose(self, rows: list[PairRow], ngrams: "Ngrams") -> tuple["ForestPairs", "Compositions"]:
        """Return pairs with their forests, and their compositions."""
        # Here, because it brings the compiled samplers with it.
        from hierogram.daemon.learning.kinds.pairs import load_pairs
        from hierogram.samplers.forests.compositions import compositions

        loaded = load_pairs(rows, self._settings)
        return loaded, compositions(loaded.batch, ONE_COMPOSITION, ngrams)


def load_inner_alignments(
    scratch: Scratch, snapshot: Snapshot, corpus: int | None, counted: Counted, heard: Heard | None = None
) -> None:
    """Give every rule of the view `rules` the alignment that most of its uses have, found in the derivations.

    Of alignments that are as frequent the one that sorts first is taken.
    """
    settings = snapshot.settings()

    def blocks() -> Blocks:
        pairs = 0
        for rows in snapshot.iterate_derivations(_PAIRS_A_READ, corpus):
            pairs += len(rows)
            if columns := _linked_rules(rows, settings, counted):
                yield pairs, columns

    link_rules(scratch, blocks(), heard)


def link_rules(scratch: Scratch, blocks: Blocks, heard: Heard | None = None) -> None:
    """Give every rule of the view `rules` its most frequent alignment; blocks are of rules, alignments and uses."""
    scratch.load("inner_uses", _LINKED, blocks, heard)
    if not scratch.row("SELECT count(*) FROM inner_uses")[0]:
        return
    scratch.run("""
        CREATE TABLE inner_alignments AS
        SELECT source, target, coalesce(alignment, '') AS alignment FROM (
            SELECT coalesce(source, '') AS source, coalesce(target, '') AS target, alignment, sum(uses) AS uses
              FROM inner_uses GROUP BY source, target, alignment
        )
        QUALIFY row_number() OVER (PARTITION BY source, target ORDER BY uses DESC, coalesce(alignment, '')) = 1""")
    scratch.run("DROP TABLE inner_uses")
    scratch.run("""
        CREATE TABLE linked AS
        SELECT rules.* EXCLUDE (id) REPLACE (coalesce(inner_alignments.alignment, '') AS alignment)
          FROM rules LEFT JOIN inner_alignments USING (source, target)""")
    scratch.run("DROP VIEW rules")
    scratch.run("DROP TABLE loaded")
    scratch.run("ALTER TABLE linked RENAME TO loaded")
    scratch.run("DROP TABLE inner_alignments")
    scratch.run("CREATE VIEW rules AS SELECT rowid AS id, * FROM loaded")


def _linked_rules(rows: list[PairRow], settings: Settings, counted: Counted) -> list[str]:
    """Return columns of sides, alignments and uses; none where no rule is used."""
    # Here, because it brings the compiled samplers with it.
    import numpy as np

    from hierogram.daemon.learning.kinds.pairs import ForestPairs, count_changes
    from hierogram.daemon.learning.kinds.registry import kind_of
    from hierogram.samplers.counts.deltas import Change, add_minimal
    from hierogram.samplers.counts.occurrences import fragment_links, rule_links
    from hierogram.samplers.forests.derivations import decode_states, empty_state, encode_trees, trees_of
    from hierogram.samplers.forests.records import fragments_of, read_averages, write_averages
    from hierogram.samplers.grammar.columns import join_blobs, no_blobs

    loaded = kind_of(settings).load(rows, settings)
    # Only such pairs have links: `LINKS` of their kind says so.
    assert isinstance(loaded, ForestPairs)
    forests = loaded.batch.forests
    state = decode_states(forests, join_blobs([row.current or b"" for row in rows]))
    trees = trees_of(encode_trees(loaded.batch, state))
    drawn = counted is Counted.DRAWN
    records = no_blobs(len(rows)) if drawn else join_blobs([row.averages or b"" for row in rows])
    records = write_averages(read_averages(loaded.batch, records))
    fragments = fragments_of(records)
    deltas = count_changes(loaded.batch, [Change(trees, 1, 0)], fragments)
    found = [(fragment_links(deltas, loaded.batch, fragments), fragments.weights.tolist())]
    alone = rule_links(deltas, loaded.batch, state, np.diff(records.offsets) == 0)
    found.append((alone, [ONE_USE] * len(alone.entries)))
    if counted is Counted.TRANSLATION:
        deltas = add_minimal(deltas, loaded.batch, np.arange(len(rows)), 1)
        smallest = empty_state(forests)
        smallest.cut[:] = 1
        links = rule_links(deltas, loaded.batch, smallest, np.ones(len(rows), np.bool_))
        found.append((links, [ONE_MINIMAL_USE] * len(links.entries)))
    return _texts(loaded, deltas, found)


def _texts(
    loaded: "ForestPairs", deltas: "CountDeltas", found: Sequence[tuple["RuleLinks", list[int]]],
    shape: Collection[str] = (),
) -> list[str]:  # fmt: skip
    """Return columns of sides, alignments, uses and shape of uses of rules, those with the same links together.

    None where no rule is used.
    """
    import numpy as np

    from hierogram.samplers.counts.occurrences import SIDE_BITS

    uses: Counter[tuple[int, bytes]] = Counter()
    for of_rules, weights in found:
        content = of_rules.links.tobytes()
        inside = [content[start:end] for start, end in pairwise((4 * of_rules.offset).tolist())]
        for entry, inner, weight in zip(of_rules.entries.tolist(), inside, weights, strict=True):
            uses[entry, inner] += weight

    @cache
    def text(links: bytes) -> str:
        packed = np.frombuffer(links, np.uint32).tolist()
        return " ".join(f"{link >> SIDE_BITS}-{link & (1 << SIDE_BITS) - 1}" for link in packed)

    rules = loaded.rules(deltas, np.arange(deltas.entries))
    sources, targets = rules.sources.strings(), rules.targets.strings()
    shapes = [rules.numbers(name).tolist() for name in shape]
    used = (
        (sources[entry], targets[entry], text(links), str(number), *(str(column[entry]) for column in shapes))
        for (entry, links), number in uses.items()
    )
    return ["\n".join(column) for column in zip(*used, strict=True)]
