"""From the store into the scratch database: all rules, or those of one corpus counted anew."""

from collections.abc import Callable, Iterator

from hierogram.daemon.exceptions import ExportError
from hierogram.daemon.exports.options import ExportOptions
from hierogram.daemon.exports.scratch import Heard, Scratch
from hierogram.storage.bulk import RULE_COLUMNS
from hierogram.storage.records import RuleDelta, Settings
from hierogram.storage.snapshot import Snapshot

_PAIRS_A_READ = 2_000
_KINDS = {"source": "VARCHAR", "target": "VARCHAR", "alignment": "VARCHAR", "id": "BIGINT", "uses": "BIGINT"}
_COLUMNS = (*RULE_COLUMNS, "uses")


def _kinds() -> dict[str, str]:
    return {name: _KINDS.get(name, "INTEGER") for name in _COLUMNS}


def load_rules(scratch: Scratch, snapshot: Snapshot, options: ExportOptions, heard: Heard | None = None) -> None:
    """Makes the table `rules`: `RULE_COLUMNS`, and the count as `uses` (over all samples, if they are averaged).

    Raises `ExportError` where there is no such corpus.
    """
    if options.corpus is None:
        scratch.load("loaded", _kinds(), snapshot.rule_blocks(sampled=options.sampled), heard)
    else:
        corpus = corpus_id(snapshot, options.corpus)
        blocks = _recounted(snapshot, corpus, options.sampled, heard)
        scratch.load("parts", _kinds(), blocks)
        same = ", ".join(f"min({name}) AS {name}" for name in RULE_COLUMNS if name not in ("id", "source", "target"))
        scratch.run(f"""
            CREATE TABLE loaded AS
            SELECT min(id) AS id, source, target, {same}, CAST(sum(uses) AS BIGINT) AS uses
              FROM parts GROUP BY source, target""")
        scratch.run("DROP TABLE parts")
    # An empty field reads as no value.
    absent = ("source", "target", "alignment")
    shown = ", ".join(f"coalesce({name}, '') AS {name}" if name in absent else name for name in _COLUMNS)
    scratch.run(f"CREATE VIEW rules AS SELECT {shown} FROM loaded")


def corpus_id(snapshot: Snapshot, name: str) -> int:
    """The id of a corpus; raises `ExportError` where there is none."""
    found = snapshot.corpus_id(name)
    if found is None:
        known = ", ".join(sorted(snapshot.status().corpora)) or "none"
        raise ExportError(f"there is no corpus {name!r} in the store; there are: {known}")
    return found


def _recounted(snapshot: Snapshot, corpus: int, sampled: bool, heard: Heard | None) -> Iterator[tuple[int, str]]:
    """The rules that a corpus's pairs use, counted anew, a part of the pairs at a time."""
    settings = snapshot.settings()
    count = _counting()
    pairs = number = 0
    for rows in snapshot.iterate_derivations(_PAIRS_A_READ, corpus):
        lines = []
        for rule in count(rows, settings, sampled):
            uses = rule.sampled_count if sampled else rule.count
            if uses:
                number += 1
                lines.append(
                    "\t".join(map(str, [number, *(getattr(rule, name, "") for name in RULE_COLUMNS[1:]), uses]))
                )
        pairs += len(rows)
        if heard:
            heard(pairs)
        if lines:
            yield pairs, "\n".join(lines) + "\n"


def _counting() -> Callable[..., list[RuleDelta]]:
    # Here, because it brings the compiled samplers with it.
    from hierogram.daemon.batches import load_batch
    from hierogram.daemon.changes import enter_samples, enter_state, rule_deltas
    from hierogram.samplers.derivations import decode_states, unpack_ring
    from hierogram.samplers.tally import empty_ledger

    def count(rows: list, settings: Settings, sampled: bool) -> list[RuleDelta]:  # type: ignore[type-arg]
        loaded = load_batch(rows, settings)
        if sampled:
            ledger = enter_samples(empty_ledger(), loaded, [unpack_ring(row.ring or b"") for row in rows], 1)
        else:
            state = decode_states(loaded.batch.forests, [row.current or b"" for row in rows])
            ledger = enter_state(empty_ledger(), loaded, state, 1)
        return rule_deltas(ledger, loaded)

    return count
