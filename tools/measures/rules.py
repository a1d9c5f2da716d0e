"""Made-up rules for measurements, as a store takes them."""

from collections.abc import Iterable
from hashlib import blake2b
from typing import NamedTuple

import numpy as np

from hierogram.samplers.grammar.columns import join_texts
from hierogram.storage.records.columns import RuleDeltas


class MadeRule(NamedTuple):
    """A rule by its sides and numbers; `uses` is its count, `sampled` its expected uses, in units of 1/4096."""

    source: str
    target: str
    length: int
    scope: int
    nonterminals: int
    source_terminals: int
    target_terminals: int
    uses: int
    sampled: int


def deltas_of(rules: Iterable[MadeRule]) -> RuleDeltas:
    """The rules as changes of counts; there is one at least."""
    rules = list(rules)
    sources, targets, *numbers = zip(*rules, strict=True)
    digests = [blake2b(f"{source} ||| {target}".encode(), digest_size=16).digest() for source, target, *_ in rules]
    shape, (uses, sampled) = np.array(numbers[:5], np.int32), np.array(numbers[5:], np.int64)
    return RuleDeltas(
        keys=np.frombuffer(b"".join(digests), ">u8").reshape(-1, 2).astype(np.uint64),
        sources=join_texts(sources),
        targets=join_texts(targets),
        lengths=shape[0],
        scopes=shape[1],
        nonterminals=shape[2],
        source_terminals=shape[3],
        target_terminals=shape[4],
        hiero=np.ones(len(rules), np.bool_),
        counts=uses,
        sampled_counts=sampled,
        sampled_variances=sampled,
    )
