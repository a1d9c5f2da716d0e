"""From the store into the scratch database: all rules, or those of one corpus counted anew."""

from collections.abc import Callable, Collection
from dataclasses import dataclass

from hierogram.daemon.exceptions import ExportError
from hierogram.daemon.exports.tables.scratch import Blocks, Heard, Scratch
from hierogram.samplers.grammar.columns import Texts
from hierogram.storage.exports.snapshot import Snapshot
from hierogram.storage.records import PairRow, RuleDeltas, Settings

_PAIRS_A_READ = 2_000
_SIDES = {"source": "VARCHAR", "target": "VARCHAR"}
_USES = {"uses": "BIGINT"}


@dataclass(frozen=True, slots=True)
class Counted:
    """What is counted: the pairs of a corpus (its id; None: all pairs), in all samples or as they are now."""

    corpus: int | None = None
    sampled: bool = False


def load_rules(
    scratch: Scratch, snapshot: Snapshot, counted: Counted, shape: Collection[str], heard: Heard | None = None
) -> None:
    """Makes the view `rules`: id, source, target, alignment (empty), the columns `shape`, and the count as `uses`.

    The count is over all samples, if they are averaged; the id is one within the scratch database.
    """
    kinds = _SIDES | dict.fromkeys(shape, "INTEGER") | _USES
    if counted.corpus is None:
        scratch.load("loaded", kinds, snapshot.rule_blocks((*_SIDES, *shape), sampled=counted.sampled), heard)
    else:
        scratch.load("parts", kinds, _recounted(snapshot, counted, shape, heard))
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


def corpus_id(snapshot: Snapshot, name: str) -> int:
    """The id of a corpus; raises `ExportError` where there is none."""
    found = snapshot.corpus_id(name)
    if found is None:
        known = ", ".join(sorted(snapshot.status().corpora)) or "none"
        raise ExportError(f"there is no corpus {name!r} in the store; there are: {known}")
    return found


def _recounted(snapshot: Snapshot, counted: Counted, shape: Collection[str], heard: Heard | None) -> Blocks:
    """The rules that a corpus's pairs use, counted anew, a part of the pairs at a time."""
    settings = snapshot.settings()
    count = _counting()
    pairs = 0
    for rows in snapshot.iterate_derivations(_PAIRS_A_READ, counted.corpus):
        rules = count(rows, settings, counted.sampled)
        pairs += len(rows)
        if heard:
            heard(pairs)
        uses = rules.sampled_counts if counted.sampled else rules.counts
        if (uses > 0).any():
            numbers = [*(rules.numbers(name) for name in shape), uses]
            texts = ["\n".join(map(str, column.tolist())) for column in numbers]
            yield pairs, [_text(rules.sources), _text(rules.targets), *texts]


def _text(column: Texts) -> str:
    """A value a line; the last line has no end."""
    return column.content[:-1].tobytes().decode()


def _counting() -> Callable[..., RuleDeltas]:
    # Here, because it brings the compiled samplers with it.
    from hierogram.daemon.learning.kinds.kind import Drawn
    from hierogram.daemon.learning.kinds.registry import kind_of
    from hierogram.samplers.grammar.columns import join_blobs, no_blobs

    def count(rows: list[PairRow], settings: Settings, sampled: bool) -> RuleDeltas:
        loaded = kind_of(settings).load(rows, settings)
        trees = loaded.trees(loaded.decode(join_blobs([row.current or b"" for row in rows])))
        records = join_blobs([row.expected_uses or b"" for row in rows]) if sampled else no_blobs(len(rows))
        return loaded.rule_deltas(None, Drawn(trees, records), settings)

    return count
