"""Ingest into a store: an input is stored once per corpus, and errors are recorded with their place and reason."""

import gzip
from pathlib import Path

import pytest
from tests.storage.building import integrity, query

from hierogram.daemon.exceptions import InputError, UsageError
from hierogram.daemon.text import lines, reading
from hierogram.daemon.text.ingest import IngestReport, ingest
from hierogram.daemon.text.pair_files import PairFiles
from hierogram.storage.exceptions import StoreUnavailableError
from hierogram.storage.records.pairs import IngestTotals
from hierogram.storage.store import Store


def write(path: Path, content: str) -> str:
    path.write_text(content)
    return str(path)


def ingest_report(store: Store, *paths: str, **options: str) -> IngestReport:
    with PairFiles(paths) as source:
        return ingest(store, source, **options)


def ingest_files(store: Store, *paths: str, **options: str) -> IngestTotals:
    return ingest_report(store, *paths, **options).totals


def test_ingesting_a_file_again_stores_pairs_only_in_another_corpus(store: Store, store_url: str, corpus: Path) -> None:
    assert ingest_files(store, str(corpus)) == IngestTotals(accepted=9)
    assert ingest_files(store, str(corpus)) == IngestTotals(duplicates=9)
    assert query(store_url, "SELECT count(*), count(DISTINCT source) FROM sentence_pairs") == [(9, 8)]
    assert ingest_files(store, str(corpus), corpus="another") == IngestTotals(accepted=9)


def test_same_pairs_are_recognized_in_every_format(store: Store, tmp_path: Path) -> None:
    write(tmp_path / "s", "a b\nc\n")
    write(tmp_path / "t", "x\ny\n")
    write(tmp_path / "a", "0-0 1-0\n0-0")
    (tmp_path / "s.gz").write_bytes(gzip.compress((tmp_path / "s").read_bytes()))
    assert ingest_files(store, *(str(tmp_path / name) for name in "sta")) == IngestTotals(accepted=2)
    assert ingest_files(store, *(str(tmp_path / name) for name in ("s.gz", "t", "a"))) == IngestTotals(duplicates=2)
    bars = write(tmp_path / "bars", "a b ||| x ||| 1-0 0-0\nc ||| y ||| 0-0\n")
    assert ingest_files(store, bars) == IngestTotals(duplicates=2)
    json_lines = write(tmp_path / "jsonl", '{"source": "a b", "target": "x", "alignment": [[1, 0], [0, 0]]}\n')
    assert ingest_files(store, json_lines) == IngestTotals(duplicates=1)


def test_rejected_lines_are_recorded_with_place_and_reason(store: Store, store_url: str, tmp_path: Path) -> None:
    path = write(tmp_path / "bars", "a ||| b ||| 0-0\na b\n\na ||| b ||| 0-1\n")
    report = ingest_report(store, path)
    assert report.totals == IngestTotals(accepted=1, rejected=3)
    assert dict(report.reasons) == {"field-count": 1, "empty-line": 1, "link-out-of-range": 1}
    kept = query(store_url, "SELECT origin, line, reason, message, content FROM rejected_lines ORDER BY line")
    assert [(row[0], row[1], row[2]) for row in kept] == [
        (path, 2, "field-count"),
        (path, 3, "empty-line"),
        (path, 4, "link-out-of-range"),
    ]
    assert bytes(kept[2][4]) == b"a ||| b ||| 0-1"
    assert kept[2][3] == (
        "alignment: link '0-1' is out of range: the source side has 1 words and the target side 1 (positions are "
        "counted from 0)"
    )
    assert ingest_files(store, path) == IngestTotals(duplicates=1, rejected=3)
    assert query(store_url, "SELECT count(*) FROM rejected_lines") == [(3,)]


def test_an_id_stored_with_other_content_is_rejected(store: Store, tmp_path: Path) -> None:
    first = write(tmp_path / "1", '{"source": "a", "target": "b", "alignment": "", "id": 7}\n')
    second = write(tmp_path / "2", '{"source": "a", "target": "c", "alignment": "", "id": 7}\n')
    assert ingest_files(store, first) == IngestTotals(accepted=1)
    report = ingest_report(store, second)
    assert report.totals == IngestTotals(rejected=1)
    assert report.first_rejected[0].reason == "external-id-conflict"


@pytest.mark.slow
def test_a_damaged_file_fails_after_its_intact_part_and_may_be_retried(
    store: Store, store_url: str, tmp_path: Path
) -> None:
    content = b"".join(b"a%d ||| b ||| 0-0\n" % k for k in range(20_000))
    whole = gzip.compress(content)
    path = tmp_path / "corpus.gz"
    path.write_bytes(whole[: len(whole) * 3 // 4])
    with pytest.raises(InputError, match=r"corpus\.gz: truncated gzip data"):
        ingest_files(store, str(path))
    stored = store.count_pairs()
    assert stored in (5_000, 10_000, 15_000)
    [(state, accepted, error)] = query(store_url, "SELECT state, accepted, error FROM ingest_batches")
    assert (state, accepted) == ("failed", stored)
    assert "truncated gzip data" in str(error)
    path.write_bytes(whole)
    assert ingest_files(store, str(path)) == IngestTotals(accepted=20_000 - stored, duplicates=stored)
    assert integrity(store) == []


def test_a_chunk_is_stored_whole_or_not_at_all(
    store: Store, store_url: str, corpus: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lines.regroup_lines, "__defaults__", (1,))
    monkeypatch.setattr(reading, "CHUNKS_PER_TRANSACTION", 2)
    add_pairs, calls = Store.add_pairs, []

    def fail_at_third(self: Store, *arguments: object) -> object:
        calls.append(arguments)
        if len(calls) == 3:
            raise StoreUnavailableError("the disk is full")
        return add_pairs(self, *arguments)

    monkeypatch.setattr(Store, "add_pairs", fail_at_third)
    with pytest.raises(StoreUnavailableError, match="the disk is full"):
        ingest_files(store, str(corpus))
    assert store.count_pairs() == 4
    assert query(store_url, "SELECT state, accepted, error FROM ingest_batches") == [("failed", 4, "the disk is full")]
    assert integrity(store) == []


def test_progress_is_reported_per_transaction(store: Store, tmp_path: Path) -> None:
    path = write(tmp_path / "bars", "a ||| b ||| 0-0\n" * 22_000)
    lines: list[int] = []

    def tell(now: IngestReport) -> None:
        lines.append(now.lines)

    with PairFiles([path]) as source:
        done = ingest(store, source, report=tell)
    assert lines == [20_000, 22_000]
    assert done.bytes_read == done.bytes_total == Path(path).stat().st_size


def test_ingesting_an_empty_file_stores_nothing(store: Store, tmp_path: Path) -> None:
    assert ingest_files(store, write(tmp_path / "empty", "")) == IngestTotals()


@pytest.mark.parametrize(
    ("paths", "format", "message"),
    [
        (["a", "b", "c", "d"], "auto", "got 4 files"),
        (["a"], "parallel", "--format parallel requires 2 or 3 files, got 1"),
        (["a", "b", "c"], "pipes", "--format pipes requires 1 file, got 3"),
        (["a"], "xml", "--format xml: expected auto, parallel, pipes, tsv, jsonl, tmx"),
        (["-", "-", "a"], "parallel", r"standard input \(-\) can be used only once"),
    ],
)
def test_wrong_number_of_files_or_unknown_format_is_reported(paths: list[str], format: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        PairFiles(paths, format)


def aligned_by(url: str) -> list[tuple[object, ...]]:
    return query(url, "SELECT source, alignment, aligned_by, state FROM sentence_pairs ORDER BY id")


def test_pairs_without_an_alignment_are_stored_as_unaligned(store: Store, store_url: str, tmp_path: Path) -> None:
    files = [write(tmp_path / "src", "a b\n\nc\n"), write(tmp_path / "tgt", "x\ny\nz\n")]
    assert ingest_files(store, *files) == IngestTotals(accepted=2, rejected=1)
    lines = ["d ||| w", "a b ||| x", "e ||| v ||| 0-0", "f ||| v ||| "]
    assert ingest_files(store, write(tmp_path / "bars", "\n".join(lines) + "\n")) == IngestTotals(
        accepted=3, duplicates=1
    )
    objects = ['{"source": "g", "target": "u"}', '{"source": "h", "target": "u", "alignment": null}']
    objects += ['{"source": "i", "target": "u", "alignment": [[0, 0]]}', '{"source": "a b", "target": "x"}']
    again = ingest_files(store, write(tmp_path / "jsonl", "\n".join(objects) + "\n"))
    assert again == IngestTotals(accepted=3, duplicates=1)
    assert aligned_by(store_url) == [
        ("a b", "", "none", "unaligned"),
        ("c", "", "none", "unaligned"),
        ("d", "", "none", "unaligned"),
        ("e", "0-0", "given", "waiting"),
        ("f", "", "given", "waiting"),
        ("g", "", "none", "unaligned"),
        ("h", "", "none", "unaligned"),
        ("i", "0-0", "given", "waiting"),
    ]
    assert store.status().pairs == {"unaligned": 5, "waiting": 3, "sampling": 0, "settled": 0}
    assert integrity(store) == []


def test_pair_with_an_id_keeps_its_alignment_if_sent_without_one(store: Store, store_url: str, tmp_path: Path) -> None:
    aligned = '{"id": "p", "source": "a", "target": "x", "alignment": "0-0"}'
    raw = '{"id": "p", "source": "a", "target": "x"}'
    assert ingest_files(store, write(tmp_path / "one", f"{aligned}\n{raw}\n")) == IngestTotals(accepted=1, duplicates=1)
    other = [f.replace('"p"', '"q"') for f in (raw, raw, aligned)]
    assert ingest_files(store, write(tmp_path / "two", "\n".join(other))) == IngestTotals(1, 1, 1)
    assert aligned_by(store_url) == [("a", "0-0", "given", "waiting"), ("a", "", "none", "unaligned")]


def test_invalid_links_among_pairs_without_links_are_reported(store: Store, tmp_path: Path) -> None:
    path = write(tmp_path / "bars", "a ||| x\na ||| x ||| 0-1\nb ||| y ||| 0-0\nc |||  ||| 0-0\n")
    report = ingest_report(store, path)
    assert report.totals == IngestTotals(accepted=2, rejected=2)
    assert [(line.line, line.reason) for line in report.first_rejected] == [(2, "link-out-of-range"), (4, "empty-side")]
