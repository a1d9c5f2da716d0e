"""Repair a store: replace every count by a recount of derivations and links, in one transaction."""

from dataclasses import dataclass, field

import numpy as np

from hierogram.daemon.learning.kinds.kind import ALIGNMENT, DERIVATION, TEXTS
from hierogram.daemon.learning.lease import holding_lease
from hierogram.daemon.learning.verifying import JUMP, LEXICON, AlignerDifference, RuleComparison, open_recount
from hierogram.daemon.progress import Steps
from hierogram.storage.checks.repair import Repair
from hierogram.storage.exports.snapshot import Snapshot
from hierogram.storage.records.aligner import AlignerCounts, FertilityCounts
from hierogram.storage.store import Store


@dataclass(slots=True)
class RepairReport:
    """Numbers of repaired items.

    `reset_pairs` are the ids of pairs that restart without a derivation, because the derivation was damaged or did not
    match the state of the pair. `unaligned_pairs` are the ids of pairs that lost their alignment. `released_pairs` were
    recorded as damaged. `resumed_pairs` had a derivation but were marked as unaligned or waiting. `pair_positions`
    counts missing or superfluous rows of the tables `pair_positions` and `pair_scores`. `rule_words`, `rule_keys` and
    `pair_word_blocks` count wrong entries of indexes. `totals` are the corrected totals as (before, after).
    """

    reset_pairs: list[int] = field(default_factory=list)
    unaligned_pairs: list[int] = field(default_factory=list)
    released_pairs: int = 0
    resumed_pairs: int = 0
    pair_positions: int = 0
    rules_corrected: int = 0
    rules_added: int = 0
    rules_removed: int = 0
    aligner_counts: int = 0
    word_counts: int = 0
    rule_words: int = 0
    pair_word_blocks: int = 0
    rule_keys: int = 0
    corpora_and_batches: int = 0
    totals: dict[str, tuple[int, int]] = field(default_factory=dict)
    remaining_problems: list[str] = field(default_factory=list)

    @property
    def changed(self) -> bool:
        """True if the repair changed anything."""
        return any(getattr(self, name) for name in self.__slots__ if name != "remaining_problems")


def repair(store: Store, report: Steps | None = None, *, dry_run: bool = False) -> RepairReport:
    """Recompute derived data, or report file damage. `dry_run` changes nothing. Raises `StoreHeldError`."""
    repaired = RepairReport()
    with store.snapshot() as snapshot:
        repaired.remaining_problems = snapshot.file_damage()
    # Do not write to a partly unreadable file, because the write would fail too.
    if not repaired.remaining_problems:
        with holding_lease(store, "hierogram repair"), store.repairing(commit=not dry_run) as (repairs, snapshot):
            _repair(repairs, snapshot, repaired, report)
    return repaired


def _repair(repairs: Repair, snapshot: Snapshot, repaired: RepairReport, report: Steps | None) -> None:
    repaired.released_pairs = repairs.release_damaged_pairs()
    reset_pairs, repaired.resumed_pairs, repaired.pair_positions = repairs.repair_states()
    repaired.reset_pairs = reset_pairs
    if not _repair_counts(repairs, snapshot, repaired, report):
        # Recount, because the first recount included pairs whose links or alignments are now deleted.
        _repair_counts(repairs, snapshot, repaired, report)
    repaired.word_counts, repaired.rule_words, repaired.pair_word_blocks, repaired.rule_keys = repairs.repair_indexes()
    repaired.corpora_and_batches, repaired.totals = repairs.repair_totals()
    repaired.remaining_problems += snapshot.table_problems()


def _repair_counts(repairs: Repair, snapshot: Snapshot, repaired: RepairReport, report: Steps | None) -> bool:
    """Replace counts by a recount. Returns False if deleted links or alignments require another recount."""
    with open_recount(snapshot, report) as recount:
        links = [damage.pair_id for damage in recount.damaged_links]
        alignments = [damage.pair_id for damage in recount.damaged_pairs if damage.part == ALIGNMENT]
        if links or alignments:
            repaired.unaligned_pairs = sorted({*repaired.unaligned_pairs, *alignments, *repairs.reset_links(links)})
            repairs.reset_alignments(alignments)
            return False
        for stored in snapshot.rule_ranges():
            recount.add_stored_rules(stored)
        unreadable = [damage.pair_id for damage in recount.damaged_pairs if damage.part == DERIVATION]
        repairs.restart(unreadable)
        repaired.reset_pairs = sorted({*repaired.reset_pairs, *unreadable})
        repaired.remaining_problems = [str(damage) for damage in recount.damaged_pairs if damage.part == TEXTS]
        for comparison in recount.rule_comparisons():
            repaired.remaining_problems += _repair_rules(repairs, comparison, repaired)
        repaired.remaining_problems += recount.unreadable_links
        if not recount.unreadable_links:
            for differences in recount.aligner_differences():
                repaired.aligner_counts += sum(int(np.count_nonzero(row.stored != row.counted)) for row in differences)
                repairs.repair_aligner(_make_change(differences))
        return True


def _repair_rules(repairs: Repair, comparison: RuleComparison, repaired: RepairReport) -> list[str]:
    """Replace stored rules by recounted rules, unless keys collide. Returns the remaining problems."""
    if comparison.collisions:
        return list(comparison.collisions.values())
    matches, ids = comparison.matches, comparison.stored.ids
    differing = np.unique(np.concatenate([indices for _, indices in comparison.differences()]))
    replacement = ids[matches.theirs[differing]], matches.ours[differing], matches.only_ours, ids[matches.only_theirs]
    repairs.repair_rules(comparison.counted.rules, *replacement)
    corrected, _, added, removed = map(len, replacement)
    repaired.rules_corrected += corrected
    repaired.rules_added += added
    repaired.rules_removed += removed
    return []


def _make_change(differences: list[AlignerDifference]) -> AlignerCounts:
    change = AlignerCounts()
    for (table, first, *second), stored, counted in differences:
        counts = (counted - stored).tolist()
        if table == LEXICON:
            change.lexicon.append((first, second[0], counts[0], counts[1]))
        elif table == JUMP:
            change.jumps.append((first, int(second[0]), counts[0]))
        else:
            change.words.append(FertilityCounts(table, first, *counts))
    return change
