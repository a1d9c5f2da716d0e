"""From the store into the scratch database: rules and their counts, of all pairs or one corpus, and their links."""

from collections import Counter
from collections.abc import Collection
from functools import cache
from itertools import pairwise

from hierogram.daemon.exports.scratch import Blocks, Heard, Scratch
from hierogram.samplers.grammar.numbers import ONE_USE
from hierogram.storage.exports.snapshot import Snapshot
from hierogram.storage.records import PairRow, Settings

_PAIRS_A_READ = 2_000
_SIDES = {"source": "VARCHAR", "target": "VARCHAR"}
_USES = {"uses": "BIGINT"}
_LINKED = {"source": "VARCHAR", "target": "VARCHAR", "alignment": "VARCHAR", "uses": "BIGINT"}


def load_rules(
    scratch: Scratch, snapshot: Snapshot, corpus: int | None, sampled: bool, shape: Collection[str],
    heard: Heard | None = None,
) -> None:  # fmt: skip
    """Make the view `rules`: id, source, target, alignment (empty), the columns `shape`, and the count as `uses`.

    It counts the pairs of a corpus (its id; None: all pairs), their expected uses if `sampled`, else those of now. The
    id is one within the scratch database.
    """
    kinds = _SIDES | dict.fromkeys(shape, "INTEGER") | _USES
    if corpus is None:
        scratch.load("loaded", kinds, snapshot.rule_blocks((*_SIDES, *shape), expected=sampled), heard)
    else:
        scratch.load("parts", kinds, _recounted(snapshot, corpus, sampled, shape, heard))
        same = "".join(f"min({name}) AS {name}, " for name in shape)
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


def _recounted(snapshot: Snapshot, corpus: int, sampled: bool, shape: Collection[str], heard: Heard | None) -> Blocks:
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
        records = join_blobs([row.averages or b"" for row in rows]) if sampled else no_blobs(len(rows))
        rules = loaded.rule_deltas(None, Drawn(trees, records), settings)
        pairs += len(rows)
        if heard:
            heard(pairs)
        uses = (rules.expected_uses * ONE_USE).astype("int64") if sampled else rules.counts
        if (uses > 0).any():
            # The last line of a block has no end.
            sides = (column.content[:-1].tobytes().decode() for column in (rules.sources, rules.targets))
            numbers = [*(rules.numbers(name) for name in shape), uses]
            yield pairs, [*sides, *("\n".join(map(str, column.tolist())) for column in numbers)]


def load_inner_alignments(
    scratch: Scratch, snapshot: Snapshot, corpus: int | None, sampled: bool, heard: Heard | None = None
) -> None:
    """Give every rule of the view `rules` the alignment that most of its uses have, found in the derivations.

    Of alignments that are as frequent the one that sorts first is taken.
    """
    settings = snapshot.settings()

    def blocks() -> Blocks:
        pairs = 0
        for rows in snapshot.iterate_derivations(_PAIRS_A_READ, corpus):
            pairs += len(rows)
            if columns := _linked_rules(rows, settings, sampled):
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


def _linked_rules(rows: list[PairRow], settings: Settings, sampled: bool) -> list[str]:
    """Return columns of sides, alignments and uses; none where no rule is used."""
    # Here, because it brings the compiled samplers with it.
    import numpy as np

    from hierogram.daemon.learning.kinds.pairs import ForestPairs, count_changes
    from hierogram.daemon.learning.kinds.registry import kind_of
    from hierogram.samplers.counts.deltas import Change
    from hierogram.samplers.counts.occurrences import SIDE_BITS, RuleLinks, fragment_links, rule_links
    from hierogram.samplers.forests.derivations import decode_states, encode_trees, trees_of
    from hierogram.samplers.forests.records import fragments_of, read_averages, write_averages
    from hierogram.samplers.grammar.columns import join_blobs, no_blobs
    from hierogram.samplers.grammar.numbers import ONE_USE

    uses: Counter[tuple[int, bytes]] = Counter()

    def count(found: RuleLinks, weights: list[int]) -> None:
        links = found.links.tobytes()
        inside = [links[start:end] for start, end in pairwise((4 * found.offset).tolist())]
        for entry, inner, weight in zip(found.entries.tolist(), inside, weights, strict=True):
            uses[entry, inner] += weight

    @cache
    def text(links: bytes) -> str:
        packed = np.frombuffer(links, np.uint32).tolist()
        return " ".join(f"{link >> SIDE_BITS}-{link & (1 << SIDE_BITS) - 1}" for link in packed)

    loaded = kind_of(settings).load(rows, settings)
    # Only such pairs have links: `LINKS` of their kind says so.
    assert isinstance(loaded, ForestPairs)
    forests = loaded.batch.forests
    state = decode_states(forests, join_blobs([row.current or b"" for row in rows]))
    trees = trees_of(encode_trees(forests, state))
    records = join_blobs([row.averages or b"" for row in rows]) if sampled else no_blobs(len(rows))
    records = write_averages(read_averages(loaded.batch, records))
    fragments = fragments_of(records)
    deltas = count_changes(loaded.batch, [Change(trees, 1, 0)], fragments)
    count(fragment_links(deltas, loaded.batch, fragments), fragments.weights.tolist())
    alone = rule_links(deltas, loaded.batch, state, np.diff(records.offsets) == 0)
    count(alone, [ONE_USE] * len(alone.entries))
    rules = loaded.rules(deltas, np.arange(deltas.entries))
    sources, targets = rules.sources.strings(), rules.targets.strings()
    used = ((sources[entry], targets[entry], text(links), str(number)) for (entry, links), number in uses.items())
    return ["\n".join(column) for column in zip(*used, strict=True)]
