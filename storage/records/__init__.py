"""What crosses the store's border: plain values, written down once; each module has those of a room.

Everything here is made once and not changed (the rows that come by the million are not frozen only because making a
frozen one takes seven times as long). Texts of tokens are joined by one space; alignments are canonical Pharaoh lines
(sorted, without repeats); rule sides are in the notation of `hierogram.samplers.grammar.rules`.
"""

from hierogram.storage.records.aligner import (
    AlignerChange,
    AlignerCounts,
    Correction,
    LinkRow,
    PairAlignment,
    PairLinks,
    WordCounts,
)
from hierogram.storage.records.columns import PairUpdates, RuleCounts, RuleDeltas, StoredRules, join_deltas
from hierogram.storage.records.grammar import LabelRow, LearningRun, RuleRow, StoredRule, SupportingPair, SweepRecord
from hierogram.storage.records.operations import Claim, ExportRow, RequestRow, StoreStatus
from hierogram.storage.records.pairs import (
    ALIGNER,
    GIVEN,
    NOBODY,
    SAMPLING,
    SETTLED,
    UNALIGNED,
    UNSETTLED,
    WAITING,
    AddedPairs,
    IngestTotals,
    LagRow,
    NewPairs,
    PairPlace,
    PairRecord,
    PairRow,
    RejectedLine,
    join_pairs,
)
from hierogram.storage.records.settings import CASES, INFINITY, KEPT, LARGEST_SEED, LOWERED, Settings

__all__ = [
    "ALIGNER",
    "CASES",
    "GIVEN",
    "INFINITY",
    "KEPT",
    "LARGEST_SEED",
    "LOWERED",
    "NOBODY",
    "SAMPLING",
    "SETTLED",
    "UNALIGNED",
    "UNSETTLED",
    "WAITING",
    "AddedPairs",
    "AlignerChange",
    "AlignerCounts",
    "Claim",
    "Correction",
    "ExportRow",
    "IngestTotals",
    "LabelRow",
    "LagRow",
    "LearningRun",
    "LinkRow",
    "NewPairs",
    "PairAlignment",
    "PairLinks",
    "PairPlace",
    "PairRecord",
    "PairRow",
    "PairUpdates",
    "RejectedLine",
    "RequestRow",
    "RuleCounts",
    "RuleDeltas",
    "RuleRow",
    "Settings",
    "StoreStatus",
    "StoredRule",
    "StoredRules",
    "SupportingPair",
    "SweepRecord",
    "WordCounts",
    "join_deltas",
    "join_pairs",
]
