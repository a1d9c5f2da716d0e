"""Shards of a batch: whole blocks of every round, similar work, and texts that give the same forests."""

import numpy as np
import pytest
from tests.daemon.learning.stores import QUICK, some_pairs

from hierogram.daemon.learning.kinds.pairs import load_pairs
from hierogram.daemon.workers.chain import extract_texts, plan_shards
from hierogram.samplers.forests.forest import build_forests
from hierogram.samplers.forests.fragments import cumulate_hashes
from hierogram.samplers.grammar.keys import ALL_BITS
from hierogram.samplers.synchronous.sweeps import Blocks
from hierogram.storage.records.pairs import WAITING, PairRow


@pytest.mark.parametrize("shards", [1, 2, 5, 16])
@pytest.mark.parametrize("pairs", [1, 37, 960, 1000])
def test_shards_have_whole_blocks_and_similar_work(shards: int, pairs: int) -> None:
    blocks = Blocks(4, 24)
    sizes = np.random.default_rng(pairs).integers(1, 40, pairs)
    work = np.concatenate(([0], np.cumsum(sizes)))
    plans = plan_shards(work, blocks, shards)
    assert sorted(pair for plan in plans for pair in plan.pairs.tolist()) == list(range(pairs))
    rounds = -(-pairs // 96)
    # Each edge of a shard is at most half a block from an even division of the work.
    most = max(work[min(k + 4, pairs)] - work[k] for k in range(0, pairs, 4))
    for number in range(rounds):
        whole = work[min(96 * (number + 1), pairs)] - work[96 * number]
        for plan in plans:
            part = plan.pairs[plan.rounds[number] : plan.rounds[number + 1]]
            assert not len(part) or (part[0] % 4 == 0 and np.all(np.diff(part) == 1))
            assert abs(sizes[part].sum() - whole / shards) <= most
    assert all(len(plan.rounds) == rounds + 1 for plan in plans)


def test_the_texts_of_a_shard_give_the_forests_of_its_rows() -> None:
    found = some_pairs(40)
    rows = [
        PairRow(number, pair.source, pair.target, str(pair.alignment), WAITING, 0, 0, None, None)
        for number, pair in enumerate(found, 1)
    ]
    chosen = np.array([0, 3, 4, 5, 17, 39])
    pairs, bitext, *hashes = extract_texts(load_pairs(rows, QUICK).batch, chosen)
    wanted = load_pairs([rows[pair] for pair in chosen.tolist()], QUICK).batch
    words = cumulate_hashes(*hashes, ALL_BITS)
    for one, other in (
        *zip(words[:2], wanted.word_hashes[:2], strict=True),
        *zip(build_forests(bitext, QUICK.span_limit), wanted.forests, strict=True),
        (pairs, wanted.pairs),
    ):
        assert np.array_equal(one, other)
