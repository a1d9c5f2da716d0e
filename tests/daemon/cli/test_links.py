"""`hierogram links`: link corrections from the command line and from files."""

import json
import re
from pathlib import Path

from tests.daemon.conftest import Run

from hierogram.storage.store import open_store

DOCUMENT = (Path(__file__).parents[3] / "docs" / "alignment.md").read_text()


def alignment(url: str, pair: int) -> str:
    with open_store(url) as store:
        return store.pairs_by_id([pair])[0].alignment


def test_human_links_are_set_and_removed(hierogram: Run, learned_url: str) -> None:
    ran = hierogram("--store", learned_url, "links", "1", "--fixed", "2-2", "--forbidden", "2-1", "--json")
    assert json.loads(ran.out) == {"pairs": 1, "links": 2, "applied": True}
    assert alignment(learned_url, 1) == "0-0 1-2 2-2"
    ran = hierogram("--store", learned_url, "verify")
    assert (ran.code, "2 human links respected by the alignments" in ran.out) == (0, True)
    assert hierogram("--store", learned_url, "links", "1", "--forget").code == 0
    assert alignment(learned_url, 1) == "0-0 1-2 2-1"


def test_documented_csv_file_of_links_is_imported(hierogram: Run, learned_url: str) -> None:
    [content] = re.findall(r"```csv\n(.*?)```", DOCUMENT, re.DOTALL)
    Path("corrections.csv").write_text(content)
    ran = hierogram("--store", learned_url, "links", "--import", "corrections.csv")
    assert (ran.code, ran.out) == (0, "2 links of 1 pair: re-aligned\n")
    with open_store(learned_url) as store:
        [known] = store.human_links([1]).values()
    assert (known.fixed, known.forbidden) == ({(1, 2)}, {(1, 1)})


def test_invalid_links_are_reported_and_not_stored(hierogram: Run, learned_url: str) -> None:
    head = "pair,source,target,verdict\n"
    for content, reason in (
        ("pair,source,target\n1,0,0\n", "the header lacks verdict: expected pair,source,target,verdict"),
        (head + "1,0,0,sure\n", "line 2: verdict must be fixed or forbidden, got 'sure'"),
        (head + "1,0,x,fixed\n", "target must be a number, got 'x'"),
        (head + "1,0,1,fixed\n99,0,0,fixed\n", "pair 99 not found"),
        (head + "1,0,7,fixed\n", "the pair has 3 and 3 words"),
        (head, "no links found"),
    ):
        Path("corrections.csv").write_text(content)
        ran = hierogram("--store", learned_url, "links", "--import", "corrections.csv")
        assert (ran.code, reason in ran.err) == (3, True), ran.err
    assert hierogram("--store", learned_url, "links", "--import", "nowhere.csv").code == 3
    for wrong in (
        ("1",),
        ("--fixed", "0-0"),
        ("1", "--fixed", "0-0", "--forget"),
        ("1", "--import", "corrections.csv"),
    ):
        assert hierogram("--store", learned_url, "links", *wrong).code == 2
    assert hierogram("--store", learned_url, "links", "1", "--fixed", "1:2").code == 2
    with open_store(learned_url) as store:
        assert store.human_links([1]) == {}
