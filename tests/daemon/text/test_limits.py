"""Limits on decompressed size and on rejected lines of an input."""

import gzip
import io
import tracemalloc
from collections import Counter
from pathlib import Path

import pytest
import zstandard
from tests.daemon.conftest import Run
from tests.storage.building import integrity, query

from hierogram.daemon.exceptions import InputError, TooManyRejectedError
from hierogram.daemon.text.ingest import ingest
from hierogram.daemon.text.lines import InputLimits, read_blocks
from hierogram.daemon.text.pair_files import PairFiles
from hierogram.daemon.text.reading import IngestOptions
from hierogram.storage.records.pairs import IngestTotals
from hierogram.storage.store import Store

BOMB = zstandard.compress(b"\n" * 32_000_000)
"""32 MB of line feeds, compressed to about a kilobyte."""


def test_a_decompression_bomb_is_refused_before_it_fills_memory() -> None:
    content = b"\n" * 40_000_000
    for packed in (zstandard.compress(content), gzip.compress(content)):
        tracemalloc.start()
        sizes: list[int] = []
        with pytest.raises(InputError, match=r"f: [\d,]+ bytes decompress to more than .* max_unpacked_ratio"):
            sizes.extend(map(len, read_blocks(io.BytesIO(packed).read, "f")))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert sum(sizes) < 25 << 20
        assert max(sizes) <= 1 << 18
        assert peak < 24 << 20
    with pytest.raises(InputError, match=r"the decompressed size exceeds 1,000 bytes: .* max_unpacked_bytes"):
        list(read_blocks(io.BytesIO(BOMB).read, "f", InputLimits(max_unpacked_bytes=1_000)))
    allowed = InputLimits(max_unpacked_ratio=1e6)
    assert sum(map(len, read_blocks(io.BytesIO(BOMB).read, "f", allowed))) == 32_000_000


def test_uncompressed_input_may_have_any_size() -> None:
    tight = InputLimits(max_unpacked_bytes=1, max_unpacked_ratio=1)
    assert b"".join(read_blocks(io.BytesIO(b"a\nb\n").read, "f", tight)) == b"a\nb\n"


def test_too_many_rejections_are_reported_by_number_and_share() -> None:
    limits = InputLimits(max_rejected_lines=1_000, max_rejected_share=0.25)
    limits.check_rejected("f", 100, Counter({"empty-line": 100}))
    limits.check_rejected("f", 4_000, Counter({"empty-line": 900, "too-long": 100}))
    with pytest.raises(
        TooManyRejectedError, match=r"f: .* 101 of the first 101 lines .*empty-line 101\), the limit is 25%.*max_rejec"
    ):
        limits.check_rejected("f", 101, Counter({"empty-line": 101}))
    with pytest.raises(
        TooManyRejectedError, match=r"too-long 901, empty-line 100\), the limit is 1,000 \(in a daemon: max_rej"
    ):
        limits.check_rejected("f", 9_000, Counter({"empty-line": 100, "too-long": 901}))


@pytest.mark.parametrize("allowed", [InputLimits(), InputLimits(max_unpacked_ratio=1e6)], ids=["ratio", "rejections"])
def test_a_kilobyte_that_unpacks_to_empty_lines_stores_nothing(
    store: Store, store_url: str, tmp_path: Path, allowed: InputLimits
) -> None:
    (tmp_path / "bomb.zst").write_bytes(BOMB)
    with PairFiles([str(tmp_path / "bomb.zst")], "pipes", limits=allowed) as source, pytest.raises(InputError):
        ingest(store, source, options=IngestOptions(limits=allowed))
    assert query(store_url, "SELECT count(*) FROM rejected_lines") == [(0,)]
    assert query(store_url, "SELECT state, rejected FROM ingest_batches") == [("failed", 0)]
    assert integrity(store) == []


@pytest.mark.slow
def test_consecutive_rejections_are_one_row(store: Store, store_url: str, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"a ||| b\n" + b"\n" * 100_000 + b"c ||| d\n")
    limits = InputLimits(max_rejected_share=1)
    for accepted, duplicates in ((2, 0), (0, 2)):
        with PairFiles([str(tmp_path / "f")]) as source:
            report = ingest(store, source, options=IngestOptions(limits=limits))
        assert report.totals == IngestTotals(accepted, duplicates, rejected=100_000)
        [run] = report.first_rejected
        assert (run.line, run.last_line, report.reasons) == (2, 100_001, {"empty-line": 100_000})
    assert query(store_url, "SELECT line, last_line FROM rejected_lines") == [(2, 100_001)]
    assert store.status().rejected_lines == 100_000
    assert integrity(store) == []


@pytest.mark.slow
def test_chunks_before_the_limit_remain_and_the_input_may_be_retried(
    store: Store, store_url: str, tmp_path: Path
) -> None:
    sound = "".join(f"a{k} ||| b\n" for k in range(20_000))
    (tmp_path / "f").write_text(sound + "x\n" * 30_000)
    with PairFiles([str(tmp_path / "f")]) as source, pytest.raises(TooManyRejectedError, match="ingest stopped"):
        ingest(store, source)
    assert store.count_pairs() == 20_000
    [(state, accepted, error)] = query(store_url, "SELECT state, accepted, error FROM ingest_batches")
    assert (state, accepted) == ("failed", 20_000)
    assert "30,000 of the first 50,000 lines" in str(error)
    limits = InputLimits(max_rejected_share=0.6)
    with PairFiles([str(tmp_path / "f")]) as source:
        assert ingest(store, source, options=IngestOptions(limits=limits)).totals == IngestTotals(0, 20_000, 30_000)
    # The chunks of the first attempt belong to its own batch.
    assert query(store_url, "SELECT line, last_line FROM rejected_lines ORDER BY id") == [
        (20_001, 40_000),
        (40_001, 50_000),
    ]
    assert store.status().rejected_lines == 30_000
    assert integrity(store) == []


def test_ingest_reports_why_an_input_is_refused(hierogram: Run, tmp_path: Path) -> None:
    (tmp_path / "f").write_text("a ||| b\n" + "x\n" * 200)
    refused = hierogram("ingest", "f")
    assert refused.code == 3
    assert (
        "200 of the first 201 lines cannot be stored (field-count 200), the limit is 50% (in a daemon: max_reje"
        in refused.err
    )
    (tmp_path / "bomb.zst").write_bytes(BOMB)
    assert "20,000 of the first 20,000 lines" in hierogram("ingest", "bomb.zst", "--format", "jsonl").err
    (tmp_path / "trees").write_text("(S a))\n" * 200)
    assert (
        "200 of the first 200 lines cannot be stored (malformed-tree 200)"
        in hierogram("--store", "trees.db", "ingest", "--trees", "trees").err
    )
