"""Distribution of a word over corpora: counted in a small store, estimated from a sample of pairs in a large one."""

import pytest
from tests.conftest import LastingStore
from tests.storage.building import ingest, pair

from hierogram.storage.browsing import words
from hierogram.storage.browsing.reader import Reader
from hierogram.storage.store import open_store

PAIRS = 130


def make(url: str) -> None:
    """Create a store of two corpora. Pairs alternately contain `rare` and `common` on both sides."""
    with open_store(url, create=True) as store:
        for corpus, number in (("one", 100), ("two", 30)):
            kinds = ("rare", "common") * number
            ingest(store, (pair(f"s{n} {kinds[n]}", f"t{n} {kinds[n]}") for n in range(number)), corpus)


@pytest.mark.parametrize("side", ["source", "target"])
@pytest.mark.parametrize("sampled", [PAIRS, PAIRS - 1, 53, 10])
def test_counts_of_a_word_by_corpus_are_exact_or_estimated_within_their_error(
    lasting_store: LastingStore, monkeypatch: pytest.MonkeyPatch, side: str, sampled: int
) -> None:
    monkeypatch.setattr(words, "SAMPLED_PAIRS", sampled)
    with Reader(lasting_store("two corpora", make)) as reader, reader.read() as transaction:
        found = words.find_distribution(transaction, side, "common")
        missing = words.find_distribution(transaction, side, "nowhere")
    assert (found.pairs_read, found.complete) == (sampled, sampled == PAIRS)
    if side == "source" or found.complete:
        assert (found.pairs_with_word, found.error) == (65, 0.0)
    else:
        assert abs(found.pairs_with_word - 65) <= 3 * found.error
    pairs = {share.corpus: share.pairs for share in found.shares}
    by_corpus = {share.corpus: share.pairs_with_word for share in found.shares}
    slack = 0 if found.complete else 150 / sampled
    assert pairs == {"one": pytest.approx(100, abs=slack), "two": pytest.approx(30, abs=slack)}
    assert by_corpus["one"] + by_corpus["two"] == pytest.approx(found.pairs_with_word, abs=1)
    assert sum(share.pairs_with_word for share in missing.shares) == missing.pairs_with_word == 0
