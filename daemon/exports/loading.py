"""Load rules, links and compositions of undamaged pairs into the scratch database.

`samplers.forests.compositions` defines compositions. Import this module only when an export reads derivations, because
it loads the compiled samplers.
"""

import numpy as np
from numpy.typing import NDArray

from hierogram.daemon.exports.scratch import RULE_COLUMNS, RULES_VIEW, SHAPE_COLUMNS, SIDE_COLUMNS, Blocks, Scratch
from hierogram.daemon.learning.kinds.kind import StoredSamples, load_undamaged
from hierogram.daemon.learning.kinds.pairs import ForestPairs
from hierogram.samplers.counts.deltas import add_fragments, add_state, empty_deltas
from hierogram.samplers.counts.occurrences import RuleLinks, fragment_links, rule_links, uses_by_links
from hierogram.samplers.counts.texts import link_texts
from hierogram.samplers.forests.compositions import add_ngrams, empty_ngrams, expected_occurrences, list_compositions
from hierogram.samplers.forests.derivations import Batch, minimal_state
from hierogram.samplers.forests.records import Fragments, list_fragments
from hierogram.samplers.grammar.columns import empty_blobs
from hierogram.samplers.grammar.numbers import ONE_COMPOSITION, ONE_MINIMAL_USE, ONE_USE
from hierogram.samplers.grammar.rules import MAX_SHORT_SOURCE
from hierogram.samplers.kernel import Report
from hierogram.storage.exports.snapshot import Snapshot
from hierogram.storage.records.grammar import CountKind

_PAIRS_PER_READ = 2_000
LINKED_COLUMNS = SIDE_COLUMNS | {"alignment": "VARCHAR", "uses": "BIGINT", "composed": "BIGINT"}
"""Columns of `aligned_uses`: rule, alignment, uses in derivations, uses in compositions."""


def load_corpus_rules(
    scratch: Scratch, snapshot: Snapshot, corpus: int, count_kind: CountKind, progress: Report
) -> None:
    """Create the view `rules` with counts from the pairs of one corpus."""
    scratch.load("parts", RULE_COLUMNS, _recount(snapshot, corpus, count_kind, progress))
    scratch.run("""
        CREATE TABLE loaded AS
        SELECT source, target, min(scope) AS scope, min(nonterminals) AS nonterminals,
               min(source_terminals) AS source_terminals, min(target_terminals) AS target_terminals,
               sum(minimal_uses) AS minimal_uses, CAST(sum(uses) AS BIGINT) AS uses
          FROM parts WHERE uses > 0 GROUP BY source, target""")
    scratch.run("DROP TABLE parts")
    scratch.run(RULES_VIEW)


def _recount(snapshot: Snapshot, corpus: int, count_kind: CountKind, progress: Report) -> Blocks:
    settings = snapshot.settings()
    pairs = 0
    for rows in snapshot.iterate_derivations(_PAIRS_PER_READ, corpus):
        undamaged, (loaded, state, averages, *_) = load_undamaged(rows, settings)
        is_drawn = count_kind is CountKind.CURRENT_SAMPLE
        records = empty_blobs(len(undamaged)) if is_drawn else averages
        rules = loaded.rule_deltas(None, StoredSamples(state, records))
        pairs += len(rows)
        progress(pairs)
        uses = rules.count if is_drawn else (rules.expected_uses * ONE_USE).astype("int64")
        if count_kind is CountKind.TRANSLATION:
            uses = uses + ONE_MINIMAL_USE * rules.minimal_uses
        if (uses > 0).any():
            yield pairs, [rules.source, rules.target, *(getattr(rules, name) for name in SHAPE_COLUMNS), uses]


def load_pair_uses(
    scratch: Scratch, snapshot: Snapshot, corpus: int | None, count_kind: CountKind, min_expected: float | None,
    linked: bool, progress: Report | None = None,
) -> None:  # fmt: skip
    """Add compositions to the view `rules` if `min_expected` is given, and alignments if `linked`.

    A composition is added if it occurs at least twice, or if it has more than `MAX_SHORT_SOURCE` source symbols and its
    source side is expected to occur at least `min_expected` times in new text. With `min_expected`, other rules are
    removed if they are used less than twice, do not occur in minimal derivations, and have a source side that is
    expected to occur less than `min_expected` times.
    """
    text = None if min_expected is None else _TextStatistics(snapshot, corpus, min_expected)
    blocks = _pair_uses(snapshot, corpus, count_kind if linked else None, text)
    scratch.load("aligned_uses", LINKED_COLUMNS | ({} if text is None else SHAPE_COLUMNS), blocks, progress)
    if text is not None:
        _compose(scratch, text)
    if linked:
        link_rules(scratch, composed=text is not None)
    if text is not None:
        scratch.run("DROP TABLE composed")
    scratch.run("DROP TABLE aligned_uses")


def load_new_rules(scratch: Scratch, snapshot: Snapshot, last_pair: int, last_rule: int, count_kind: CountKind) -> bool:
    """Create the view `rules` of rules that new pairs use, and of all rules that share a side with them.

    A pair is new if its id is above `last_pair`, a rule if its id is above `last_rule`. The table `fresh` (source,
    target) contains the new rules that new pairs use. Returns True, or False without creating a view if the store has
    no new pairs.
    """
    if next(snapshot.iterate_derivations(1, after_id=last_pair), None) is None:
        return False
    scratch.load("aligned_uses", LINKED_COLUMNS, _pair_uses(snapshot, None, count_kind, None, last_pair))
    queries = ((side, f"SELECT DISTINCT {side} FROM aligned_uses WHERE uses > 0") for side in SIDE_COLUMNS)
    sides = {side: [text for rows in scratch.row_blocks(query) for (text,) in rows] for side, query in queries}
    columns = (f"CASE WHEN id > {last_rule} THEN 1 ELSE 0 END", *SIDE_COLUMNS, *SHAPE_COLUMNS)
    blocks = snapshot.matching_rule_blocks(columns, sides, count_kind)
    scratch.load("loaded", {"fresh": "INTEGER"} | RULE_COLUMNS, blocks)
    scratch.run("""
        CREATE TABLE fresh AS
        SELECT source, target FROM loaded WHERE fresh = 1
        INTERSECT
        SELECT source, target FROM aligned_uses WHERE uses > 0""")
    scratch.run(RULES_VIEW)
    link_rules(scratch)
    scratch.run("DROP TABLE aligned_uses")
    return True


_TWICE = 2
_BUCKETS = 1 << 25
"""Number of hash buckets. A collision only adds candidates, which `_compose` deletes by exact counts."""


class _TextStatistics:
    """N-gram counts of the exported pairs, and composition counts by hash bucket, capped at 2."""

    def __init__(self, snapshot: Snapshot, corpus: int | None, min_expected: float) -> None:
        """Read the pairs. Source sides expected fewer than `min_expected` times in new text are rare."""
        self._min_expected, self._settings = min_expected, snapshot.settings()
        self._bucket_counts = np.zeros(_BUCKETS, np.uint8)
        self._ngrams = empty_ngrams()
        for rows in snapshot.iterate_derivations(_PAIRS_PER_READ, corpus):
            loaded = load_undamaged(rows, self._settings)[1].loaded
            assert isinstance(loaded, ForestPairs)
            batch = loaded.batch
            self._ngrams = add_ngrams(self._ngrams, batch)
            keys = list_compositions(batch, self._ngrams).keys
            buckets, times = np.unique(keys % np.uint64(_BUCKETS), return_counts=True)
            self._bucket_counts[buckets] = np.minimum(self._bucket_counts[buckets] + times, _TWICE)

    def compositions(self, batch: Batch) -> Fragments:
        """Return compositions that occur twice or whose source side is not rare, and some others by collision."""
        found = list_compositions(batch, self._ngrams)
        twice = self._bucket_counts[found.keys % np.uint64(_BUCKETS)] >= _TWICE
        return found.fragments.select(twice | (found.expected >= self._min_expected))

    def delete_rare(self, scratch: Scratch, table: str, candidates: str) -> None:
        """Delete rows of a table with a rare source side, among the rows of the FROM clause `candidates`."""

        def rare_rows() -> Blocks:
            for block in scratch.row_blocks(f"SELECT {table}.rowid, source FROM {candidates}"):
                rows, sources = zip(*block, strict=True)
                expected = expected_occurrences(self._ngrams, sources, self._settings.key_salt)
                yield len(rows), [np.array(rows, np.int64)[expected < self._min_expected]]

        scratch.load("rare_rows", {"row": "BIGINT"}, rare_rows())
        scratch.run(f"DELETE FROM {table} WHERE rowid IN (SELECT row FROM rare_rows)")
        scratch.run("DROP TABLE rare_rows")


def _compose(scratch: Scratch, text: _TextStatistics) -> None:
    """Add compositions to `loaded`, list them in `composed`, and delete rules that are rare in new text."""
    shape_columns = "".join(f", min({name}) AS {name}" for name in SHAPE_COLUMNS)
    scratch.run(f"""
        CREATE TABLE composed AS
        SELECT source, target, CAST(sum(composed) AS BIGINT) AS uses{shape_columns} FROM aligned_uses
         WHERE composed > 0 GROUP BY source, target""")
    once = f"uses < {_TWICE * ONE_COMPOSITION}"
    scratch.run(f"DELETE FROM composed WHERE {once} AND len(string_split(source, ' ')) <= {MAX_SHORT_SOURCE}")
    text.delete_rare(scratch, "composed", f"composed WHERE {once}")
    rare = f"minimal_uses = 0 AND uses < {_TWICE * ONE_USE}"
    text.delete_rare(scratch, "loaded", f"loaded ANTI JOIN composed USING (source, target) WHERE {rare}")
    # Create a new table, because updates would need memory for each changed row.
    shape_columns = "".join(f", coalesce(loaded.{name}, composed.{name}) AS {name}" for name in SHAPE_COLUMNS)
    scratch.run(f"""
        CREATE TABLE extended AS
        SELECT source, target, coalesce(loaded.uses, 0) + coalesce(composed.uses, 0) AS uses{shape_columns}
          FROM loaded FULL JOIN composed USING (source, target)""")
    scratch.run("DROP TABLE loaded")
    scratch.run("ALTER TABLE extended RENAME TO loaded")


def link_rules(scratch: Scratch, composed: bool = False) -> None:
    """Replace the view `rules`, so that each rule has its most frequent alignment in `aligned_uses`.

    If `composed`, uses in the compositions of the table `composed` are also counted. If several alignments are equally
    frequent, the first in sort order is used.
    """
    compositions = """
            UNION ALL
            SELECT source, target, alignment, composed AS uses
              FROM aligned_uses SEMI JOIN composed USING (source, target) WHERE composed > 0"""
    scratch.run(f"""
        CREATE TABLE best_alignments AS
        WITH used AS (
            SELECT source, target, alignment, uses FROM aligned_uses WHERE uses > 0{compositions if composed else ""}
        )
        SELECT source, target, alignment FROM used GROUP BY source, target, alignment
        QUALIFY row_number() OVER (PARTITION BY source, target ORDER BY sum(uses) DESC, alignment) = 1""")
    scratch.run("""
        CREATE TABLE linked AS
        SELECT rules.* EXCLUDE (id) REPLACE (coalesce(best_alignments.alignment, '') AS alignment)
          FROM rules LEFT JOIN best_alignments USING (source, target)""")
    scratch.run("DROP VIEW rules")
    scratch.run("DROP TABLE loaded")
    scratch.run("ALTER TABLE linked RENAME TO loaded")
    scratch.run("DROP TABLE best_alignments")
    scratch.run("CREATE VIEW rules AS SELECT rowid AS id, * FROM loaded")


def _pair_uses(
    snapshot: Snapshot, corpus: int | None, count_kind: CountKind | None, text: _TextStatistics | None, after: int = 0
) -> Blocks:
    """Yield blocks of `LINKED_COLUMNS` for the rules of pairs with ids above `after`.

    Uses in derivations are counted unless `count_kind` is None. If `text` is given, uses in compositions are counted,
    and `SHAPE_COLUMNS` are added.
    """
    settings = snapshot.settings()
    pairs = 0
    for rows in snapshot.iterate_derivations(_PAIRS_PER_READ, corpus, after):
        undamaged, (loaded, state, averages, *_) = load_undamaged(rows, settings)
        # Callers check that the kind of grammar has `LINKS`. Pairs of such kinds have forests.
        assert isinstance(loaded, ForestPairs)
        batch, deltas, composed = loaded.batch, empty_deltas(), None
        links: list[RuleLinks] = []
        weights: list[NDArray[np.int64]] = []
        if text is not None:
            composed = text.compositions(batch)
            deltas = add_fragments(deltas, batch, composed)
        if count_kind is not None:
            records = empty_blobs(len(undamaged)) if count_kind is CountKind.CURRENT_SAMPLE else averages
            fragments = list_fragments(records)
            deltas = add_fragments(deltas, batch, fragments)
            links.append(fragment_links(deltas, batch, fragments))
            weights.append(fragments.weights)
            # Without recorded averages, the expected uses of a pair are the uses in its current derivation.
            without_record = np.flatnonzero(np.diff(records.offsets) == 0)
            deltas = add_state(deltas, batch, state, (1, 0, 0, 0), without_record)
            links.append(rule_links(deltas, batch, state, without_record))
            weights.append(np.full(len(links[-1].entries), ONE_USE, np.int64))
        if count_kind is CountKind.TRANSLATION:
            all_pairs, minimal = np.arange(len(undamaged)), minimal_state(batch.forests)
            deltas = add_state(deltas, batch, minimal, (0, 0, 0, 1), all_pairs)
            links.append(rule_links(deltas, batch, minimal, all_pairs))
            weights.append(np.full(len(links[-1].entries), ONE_MINIMAL_USE, np.int64))
        derivation_kinds = len(links)
        if composed is not None:
            links.append(fragment_links(deltas, batch, composed))
            weights.append(composed.weights)
        pairs += len(rows)
        distinct, uses = uses_by_links(links, weights)
        if not len(uses):
            continue
        in_derivations, in_compositions = uses[:, :derivation_kinds].sum(axis=1), uses[:, derivation_kinds:].sum(axis=1)
        rules = loaded.rules(deltas, distinct.entries)
        shapes = (getattr(rules, name) for name in SHAPE_COLUMNS if text is not None)
        yield pairs, [rules.source, rules.target, link_texts(distinct), in_derivations, in_compositions, *shapes]
