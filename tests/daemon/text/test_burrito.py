"""Scripture Burrito alignments are imported as linked pairs and exported as records."""

import json
from pathlib import Path

import pytest
from tests.daemon.conftest import Run

import hierogram as hg
from hierogram.daemon.text.burrito import ROLES, burrito_pairs, make_burrito, read_links, read_token_text

SOURCE = "id\ttext\nn40001001001\tΒίβλος\nn40001001002\tγενέσεως\nn40001002001\tἈβραὰμ\n"
TARGET = (
    "id\tsource_verse\ttext\texclude\n40001001001\t40001001\tThis\t\n40001001002\t40001001\tbook\t\n"
    "40001001003\t40001001\t,\ty\n40001001004\t40001001\tgenealogy\t\n40001002001\t40001002\tAbraham\t\n"
)
RECORDS = [
    {"source": ["n40001001001"], "target": ["40001001001", "40001001002"], "meta": {"id": "40001001.001"}},
    {"source": ["n40001001002"], "target": ["400010010041"], "meta": {"id": "40001001.002"}},
    {"source": ["n40001002001"], "target": ["40001001004", "40001001003"], "meta": {"id": "40001002.001"}},
]


@pytest.fixture
def files(tmp_path: Path) -> tuple[str, str, str]:
    for name, text in (("SRC.tsv", SOURCE), ("nt_TGT.tsv", TARGET), ("a.json", json.dumps({"records": RECORDS}))):
        (tmp_path / name).write_text(text, encoding="utf-8")
    return str(tmp_path / "a.json"), str(tmp_path / "SRC.tsv"), str(tmp_path / "nt_TGT.tsv")


def test_verses_are_pairs_with_their_links(files: tuple[str, str, str]) -> None:
    first, second = burrito_pairs(*files)
    assert first == {
        "id": "40001001",
        "source": "Βίβλος γενέσεως",
        "target": "This book genealogy",
        "alignment": [(0, 0), (0, 1), (1, 2)],
    }
    assert second == {"id": "40001002", "source": "Ἀβραὰμ", "target": "Abraham", "alignment": []}


def test_exported_burrito_links_can_be_imported(files: tuple[str, str, str], tmp_path: Path) -> None:
    texts = read_token_text(files[1]), read_token_text(files[2])
    links = read_links(files[0], *texts)
    made = make_burrito(*texts, {verse: dict.fromkeys(links[verse], 0.5) for verse in links})
    assert [record["source"] for record in made["records"]] == [["n40001001001"], ["n40001001002"]]
    assert made["records"][0]["target"] == ["40001001001", "40001001002"]
    assert [document["docid"] for document in made["documents"]] == ["SRC", "TGT"]
    (tmp_path / "b.json").write_text(json.dumps(made))
    assert read_links(str(tmp_path / "b.json"), *texts) == links


def test_links_with_a_common_word_are_merged_into_one_record(tmp_path: Path) -> None:
    for name, prefix in (("SRC.tsv", "n"), ("TGT.tsv", "")):
        rows = [f"{prefix}4000100100{k}\tw{k}" for k in range(1, 5)]
        (tmp_path / name).write_text("\n".join(["id\ttext", *rows]))
    source, target = (read_token_text(str(tmp_path / name)) for name in ("SRC.tsv", "TGT.tsv"))
    links = {(0, 0): 0.25, (1, 2): 1.0, (2, 0): 0.5, (2, 1): 0.9, (3, 2): 0.8}
    made = make_burrito(source, target, {"40001001": links})
    words = [[[int(number[-1]) for number in record[role]] for role in ROLES] for record in made["records"]]
    assert words == [[[1, 3], [1, 2]], [[2, 4], [3]]]
    assert [record["meta"]["probability"] for record in made["records"]] == [0.55, 0.9]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.json", "[", "a.json: not JSON: Expecting value"),
        ("a.json", "[]", "a.json: not a Scripture Burrito alignment: records not found"),
        ("a.json", "{}", "a.json: not a Scripture Burrito alignment: records not found"),
        ("a.json", '{"records": 1}', "records must be a list"),
        ("a.json", '{"records": [{"source": ["n40001001001"]}]}', "record 1: expected the lists source and target"),
        ("SRC.tsv", "number\tword\n", "SRC.tsv, line 1: expected the columns id and text, got number, word"),
        ("SRC.tsv", "id\ttext\nx\ty\n", "line 2: id 'x': expected 8 to 13 digits"),
        ("SRC.tsv", "id\ttext\nn40001001001\n", "line 2: expected 2 columns as in the header, got 1"),
    ],
)
def test_invalid_burrito_files_are_reported(
    files: tuple[str, str, str], tmp_path: Path, name: str, text: str, message: str
) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(hg.InputError, match=message):
        list(burrito_pairs(*files))


def test_ingest_reads_and_align_writes_burrito_files(
    hierogram: Run, files: tuple[str, str, str], tmp_path: Path
) -> None:
    store = f"sqlite:///{tmp_path / 's.db'}"
    done = hierogram("--store", store, "ingest", *files, "--format", "burrito", "--corpus", "nt")
    assert (done.code, "2 pairs stored" in done.out) == (0, True), done
    with hg.open(store) as opened:
        assert opened.pair(1).links == [(0, 0), (0, 1), (1, 2)]
        assert opened.add(*files, format="burrito", corpus="nt").totals.duplicates == 2
    out = tmp_path / "out.json"
    done = hierogram("align", files[1], files[2], "-o", str(out))
    assert done.code == 0, done
    written = json.loads(out.read_text())
    assert written["meta"]["creator"] == "hierogram"
    assert {number for record in written["records"] for number in record["source"]} <= {
        "n40001001001",
        "n40001001002",
        "n40001002001",
    }
    assert hierogram("--store", store, "ingest", files[0], "--format", "burrito").code == 2
