"""Repair: set every count to the value recounted from derivations and links, in one transaction."""

from collections import defaultdict
from dataclasses import dataclass, field

import numpy as np

from hierogram.daemon.learning.kinds.stored import ALIGNMENT, DERIVATION, TEXTS
from hierogram.daemon.learning.learner import holding_lease
from hierogram.daemon.learning.verifying import Name, RulePart, open_recount
from hierogram.daemon.progress import Steps
from hierogram.storage.checks.repair import Repair
from hierogram.storage.exports.snapshot import Snapshot
from hierogram.storage.records import AlignerChange, WordCounts
from hierogram.storage.store import Store

_COUNTS_OF_WORDS = WordCounts._fields[2:]


@dataclass(slots=True)
class RepairReport:
    """Numbers of repaired items.

    `reset_pairs`: ids of pairs that lost their derivation or samples. `unaligned_pairs`: ids of pairs that lost their
    alignment. `released_pairs`: pairs that had been set aside. `resumed_pairs`: pairs with a derivation that were
    marked as waiting. `pair_positions`: pairs whose last sampling time was unknown. `totals`: corrected totals of the
    store, before and after. `remaining_problems`: problems that cannot be repaired.
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
        """Whether the repair changed anything."""
        return any(getattr(self, name) for name in self.__slots__ if name != "remaining_problems")


def repair(store: Store, report: Steps | None = None, *, keep: bool = True) -> RepairReport:
    """Recompute all data derived from pairs, derivations and links in one transaction, rolled back without `keep`."""
    done = RepairReport()
    with store.snapshot() as snapshot:
        done.remaining_problems = snapshot.file_damage()
    # A file that is partly unreadable cannot be written to either.
    if not done.remaining_problems:
        with holding_lease(store, "hierogram repair"), store.repairing(keep=keep) as (repairs, snapshot):
            _repair(repairs, snapshot, done, report)
    return done


def _repair(repairs: Repair, snapshot: Snapshot, done: RepairReport, report: Steps | None) -> None:
    done.released_pairs = repairs.put_back()
    lost, done.resumed_pairs, done.pair_positions = repairs.repair_states()
    done.reset_pairs = lost
    if not _repair_counts(repairs, snapshot, done, report):
        # The recount included pairs whose alignments are deleted now.
        _repair_counts(repairs, snapshot, done, report)
    done.word_counts, done.rule_words, done.pair_word_blocks, done.rule_keys = repairs.repair_indexes()
    done.corpora_and_batches, done.totals = repairs.repair_totals()
    done.remaining_problems += repairs.problems()


def _repair_counts(repairs: Repair, snapshot: Snapshot, done: RepairReport, report: Steps | None) -> bool:
    """Set the counts of rules and links to a recount.

    Returns False if there are damaged links or alignments: these are deleted instead, and a recount has to follow.
    """
    with open_recount(snapshot, report) as recount:
        links = [fault.pair_id for fault in recount.damaged_links]
        alignments = [fault.pair_id for fault in recount.faults if fault.part == ALIGNMENT]
        if links or alignments:
            done.unaligned_pairs = sorted({*done.unaligned_pairs, *alignments, *repairs.link_again(links)})
            repairs.align_again(alignments)
            return False
        for stored in snapshot.rule_ranges():
            recount.add_stored_rules(stored)
        unreadable = [fault.pair_id for fault in recount.faults if fault.part == DERIVATION]
        repairs.restart(unreadable)
        done.reset_pairs = sorted({*done.reset_pairs, *unreadable})
        done.remaining_problems = [str(fault) for fault in recount.faults if fault.part == TEXTS]
        for part in recount.rule_parts():
            done.remaining_problems += _repair_rules(repairs, part, done)
        done.remaining_problems += recount.unreadable_links
        if not recount.unreadable_links:
            for differing in recount.link_parts():
                done.aligner_counts += len(differing)
                repairs.repair_aligner(_count_difference(differing))
        return True


def _repair_rules(repairs: Repair, part: RulePart, done: RepairReport) -> list[str]:
    """Replace the stored rules of a part with the recounted rules; return descriptions of irreparable problems."""
    if part.shared:
        return list(part.shared.values())
    matches, ids = part.matches(), part.stored.ids
    wrong = np.unique(np.concatenate([which for _, which in part.differing(matches)]))
    found = ids[matches.theirs[wrong]], matches.ours[wrong], matches.only_ours, ids[matches.only_theirs]
    repairs.repair_rules(part.counted, *found)
    corrected, _, added, removed = map(len, found)
    done.rules_corrected += corrected
    done.rules_added += added
    done.rules_removed += removed
    return []


def _count_difference(links: dict[Name, tuple[int, int]]) -> AlignerChange:
    lexicon: defaultdict[tuple[str, str], dict[str, int]] = defaultdict(dict)
    words: defaultdict[tuple[str, str], dict[str, int]] = defaultdict(dict)
    change = AlignerChange()
    for (first, second, third), (stored, counted) in links.items():
        lacking = counted - stored
        if first == "jump":
            change.jumps.append((second, int(str(third)), lacking))
        elif first in ("forward", "backward"):
            lexicon[second, str(third)][first] = lacking
        else:
            words[first, second][str(third)] = lacking
    change.lexicon = [(*pair, counts.get("forward", 0), counts.get("backward", 0)) for pair, counts in lexicon.items()]
    change.words = [
        WordCounts._make((*word, *(counts.get(column, 0) for column in _COUNTS_OF_WORDS)))
        for word, counts in words.items()
    ]
    return change
