"""The alignment inside each rule: the one that most of its uses have, found by going through the derivations."""

from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from typing import TYPE_CHECKING

from hierogram.daemon.exports.tables.loading import Counted
from hierogram.daemon.exports.tables.scratch import Blocks, Heard, Scratch
from hierogram.storage.exports.snapshot import Snapshot
from hierogram.storage.records import Settings

if TYPE_CHECKING:
    from hierogram.storage.records import PairRow

_PAIRS_A_READ = 2_000
_KINDS = {"source": "VARCHAR", "target": "VARCHAR", "alignment": "VARCHAR", "uses": "BIGINT"}

Columns = Callable[["list[PairRow]", Settings, bool], list[str]]


def load_inner_alignments(scratch: Scratch, snapshot: Snapshot, counted: Counted, heard: Heard | None = None) -> None:
    """Gives every rule of the view `rules` the alignment that most of its uses have.

    Of alignments that are as frequent the one that sorts first is taken.
    """
    link_rules(scratch, _blocks(snapshot, counted), heard)


def link_rules(scratch: Scratch, blocks: Blocks, heard: Heard | None = None) -> None:
    """Gives every rule of the view `rules` its most frequent alignment; blocks are of rules, alignments and uses."""
    scratch.load("inner_uses", _KINDS, blocks, heard)
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


def _blocks(snapshot: Snapshot, counted: Counted) -> Blocks:
    settings = snapshot.settings()
    columns_of: Columns | None = None
    pairs = 0
    for rows in snapshot.iterate_derivations(_PAIRS_A_READ, counted.corpus):
        columns_of = columns_of or _reader()
        pairs += len(rows)
        columns = columns_of(rows, settings, counted.sampled)
        if columns:
            yield pairs, columns


def _reader() -> Columns:
    # Here, because it brings the compiled samplers with it.
    import numpy as np

    from hierogram.daemon.learning.kinds.counting import ForestPairs, count_changes
    from hierogram.daemon.learning.kinds.registry import kind_of
    from hierogram.samplers.counts.changes import Change
    from hierogram.samplers.counts.rule_alignments import SIDE_BITS, RuleLinks, fragment_links, rule_links
    from hierogram.samplers.forests.derivations import decode_states, encode_trees, trees_of
    from hierogram.samplers.forests.records import fragments_of, read_averages, write_averages
    from hierogram.samplers.grammar.columns import join_blobs, no_blobs
    from hierogram.samplers.grammar.uses import ONE_USE

    def text(links: bytes) -> str:
        packed = np.frombuffer(links, np.uint32).tolist()
        return " ".join(f"{link >> SIDE_BITS}-{link & (1 << SIDE_BITS) - 1}" for link in packed)

    def counted(uses: "Counter[tuple[int, bytes]]", found: RuleLinks, weights: list[int]) -> None:
        links = found.links.tobytes()
        inside = [links[start:end] for start, end in pairwise((4 * found.offset).tolist())]
        for entry, inner, weight in zip(found.entries.tolist(), inside, weights, strict=True):
            uses[entry, inner] += weight

    def columns_of(rows: "list[PairRow]", settings: Settings, sampled: bool) -> list[str]:
        loaded = kind_of(settings).load(rows, settings)
        # Only such pairs have links: `LINKS` of their kind says so.
        assert isinstance(loaded, ForestPairs)
        forests = loaded.batch.forests
        uses: Counter[tuple[int, bytes]] = Counter()
        state = decode_states(forests, join_blobs([row.current or b"" for row in rows]))
        trees = trees_of(encode_trees(forests, state))
        records = join_blobs([row.expected_uses or b"" for row in rows]) if sampled else no_blobs(len(rows))
        records = write_averages(read_averages(loaded.batch, records))
        fragments = fragments_of(records)
        deltas = count_changes(loaded.batch, [Change(trees, 1, 0)], fragments)
        found = fragment_links(deltas, loaded.batch, fragments)
        counted(uses, found, fragments.weights.tolist())
        alone = np.diff(records.offsets) == 0
        found = rule_links(deltas, loaded.batch, state, alone)
        counted(uses, found, [ONE_USE] * len(found.entries))
        rules = loaded.rules(deltas, np.arange(deltas.entries))
        sources, targets = rules.sources.strings(), rules.targets.strings()
        used = ((sources[entry], targets[entry], text(links), str(number)) for (entry, links), number in uses.items())
        return ["\n".join(column) for column in zip(*used, strict=True)]

    return columns_of
