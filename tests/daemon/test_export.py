"""Exports: one snapshot, whole or not at all, and a manifest that tells the truth."""

import hashlib
import json
import re
from pathlib import Path

import pytest
import zstandard

from hierogram.daemon.exceptions import ExportError
from hierogram.daemon.export import Filters, Manifest, appearing, export, manifest_path, rule_line
from hierogram.daemon.learning import learn
from hierogram.samplers.rules import Rule, parse_side
from hierogram.storage.records import RuleRow
from hierogram.storage.store import Store


def read(path: Path) -> list[list[str]]:
    content = zstandard.ZstdDecompressor().decompressobj().decompress(path.read_bytes()).decode()
    assert content.endswith("\n")
    return [line.split(" ||| ") for line in content.split("\n")[:-1]]


def features(line: list[str]) -> dict[str, float]:
    return {name: float(value) for name, value in (feature.split("=") for feature in line[3].split(" "))}


def test_an_export_holds_the_rules_of_the_store(learned: Store, tmp_path: Path) -> None:
    path = tmp_path / "g.zst"
    manifest = export(learned, path, Filters(max_scope=99))
    lines = read(path)
    stored = {(rule.source, rule.target): rule for rule in learned.find_rules(limit=10_000)}
    assert {(line[1], line[2]) for line in lines} == set(stored)
    assert len(lines) == manifest.rules == len(stored)
    for line in lines:
        rule = stored[line[1], line[2]]
        assert line[0] == "[X]"
        assert features(line) == pytest.approx(
            {
                "p(e|f)": rule.p_target_given_source,
                "p(f|e)": rule.p_source_given_target,
                "count": rule.count,
            },
            rel=1e-5,
        )


def test_filters_leave_rules_out(learned: Store, tmp_path: Path) -> None:
    everything = export(learned, tmp_path / "all.zst", Filters(max_scope=99)).rules
    for filters in (Filters(max_scope=1), Filters(max_scope=99, hiero=True), Filters(max_scope=99, min_count=2)):
        path = tmp_path / "some.zst"
        assert 0 < export(learned, path, filters).rules < everything
        for line in read(path):
            rule = Rule.parse(f"{line[1]} ||| {line[2]}")
            assert rule.scope <= filters.max_scope
            assert features(line)["count"] >= filters.min_count
            assert not (filters.hiero and (rule.nonterminals > 2 or len(rule.source) > 5))


def test_sampled_counts_are_averages_over_the_samples(learned: Store, tmp_path: Path) -> None:
    path = tmp_path / "g.zst"
    export(learned, path, Filters(max_scope=99, sampled=True))
    counts = [features(line)["count"] for line in read(path)]
    status = learned.status()
    assert sum(counts) == pytest.approx(status.sampled_tokens / learned.settings().samples, rel=1e-4)
    assert any(count % 1 for count in counts)


def test_the_manifest_tells_the_truth(learned: Store, tmp_path: Path) -> None:
    path = tmp_path / "g.zst"
    position = learned.position()
    manifest = export(learned, path, Filters(min_count=2))
    written = json.loads(manifest_path(path).read_text())
    assert Manifest(**written) == manifest
    assert written["file"] == "g.zst"
    assert written["bytes"] == path.stat().st_size
    assert written["sha256"] == hashlib.sha256(path.read_bytes()).hexdigest()
    assert written["rules"] == len(read(path))
    assert written["filters"] == {"max_scope": 2, "hiero": False, "min_count": 2, "sampled": False}
    assert written["settings"]["sweeps_per_level"] == 2
    # Recording that the export has begun is the one transaction between.
    assert written["position"] == position + 1
    [recorded] = learned.exports()
    assert (recorded.state, recorded.rules, recorded.sha256) == ("done", manifest.rules, manifest.sha256)
    assert recorded.path == str(path)
    assert json.loads(recorded.manifest or "") == written


def test_the_same_grammar_gives_the_same_bytes(learned: Store, tmp_path: Path) -> None:
    first = export(learned, tmp_path / "1.zst")
    assert export(learned, tmp_path / "2.zst").sha256 == first.sha256


def test_an_export_shows_the_moment_it_began(learned: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def counts() -> dict[tuple[str, str], int]:
        return {(rule.source, rule.target): rule.count for rule in learned.find_rules(limit=10_000)}

    asked = 0

    def learn_meanwhile(rule: RuleRow, count: float) -> str:
        nonlocal asked
        asked += 1
        if asked == 2:
            learn(learned, sweeps=4)
        return rule_line(rule, count)

    before = counts()
    monkeypatch.setattr("hierogram.daemon.export.rule_line", learn_meanwhile)
    export(learned, tmp_path / "g.zst", Filters(max_scope=99))
    assert {(line[1], line[2]): features(line)["count"] for line in read(tmp_path / "g.zst")} == before
    assert counts() != before


def test_a_failed_export_leaves_nothing_but_its_record(
    learned: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "folder" / "g.zst"
    path.parent.mkdir()
    path.write_bytes(b"the export of yesterday")

    def fail(rule: RuleRow, count: float) -> str:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("hierogram.daemon.export.rule_line", fail)
    with pytest.raises(ExportError, match=r"g\.zst: cannot be written: No space left on device"):
        export(learned, path)
    assert [file.name for file in path.parent.iterdir()] == ["g.zst"]
    assert path.read_bytes() == b"the export of yesterday"
    [recorded] = learned.exports()
    assert (recorded.state, recorded.rules) == ("failed", None)
    assert "No space left" in (recorded.error or "")


def test_a_missing_folder_is_told(learned: Store, tmp_path: Path) -> None:
    with pytest.raises(ExportError, match=r"the folder .* does not exist"):
        export(learned, tmp_path / "nowhere" / "g.zst")
    assert learned.exports() == []


def test_a_file_appears_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "file"
    with appearing(path) as file:
        file.write(b"half")
        assert not path.exists()
        file.write(b" and half")
    assert path.read_bytes() == b"half and half"
    with pytest.raises(KeyboardInterrupt):
        interrupt(path)
    assert path.read_bytes() == b"half and half"
    assert list(tmp_path.iterdir()) == [path]


def interrupt(path: Path) -> None:
    with appearing(path) as file:
        file.write(b"half")
        raise KeyboardInterrupt


@pytest.mark.parametrize(
    ("side", "written"),
    [
        ("a [X,1] b", "a [X,1] b"),
        ("||| [X,1] |||| a|||", "\\||| [X,1] |||| a|||"),
        ("[X,1] \\[X,2] \\\\", "[X,1] \\[X,2] \\\\"),
        ("[laughs] [1] [X] [X,0] [X,1]x ] [ x]", "\\[laughs] \\[1] \\[X] \\[X,0] [X,1]x ] [ x]"),
    ],
)
def test_words_that_decoders_would_mistake_are_escaped(side: str, written: str) -> None:
    rule = RuleRow(1, side, side, 3, 1, 1, True, 2, 0, 1 / 3, 1.0)
    assert rule_line(rule, 2).split(" ||| ")[1:3] == [written, written]
    # Dropping the backslash gives the same rule: the notation stays what it was.
    assert parse_side(written) == parse_side(side)


@pytest.mark.parametrize(
    ("value", "written"),
    [(1 / 3, "0.333333"), (1.0, "1"), (2.5e-7, "2.50000e-07"), (1e-5, "1.00000e-05"), (1234567, "1234567")],
)
def test_numbers_are_those_that_cdec_reads(value: float, written: str) -> None:
    # What cdec's lexer of grammars takes for a number.
    assert re.fullmatch(r"[-+]?[0-9]+(\.[0-9]*([eE][-+]*[0-9]+)?)?", written)
    rule = RuleRow(1, "a", "b", 2, 0, 0, True, 2, 0, 0.5, value)
    assert rule_line(rule, value) == f"[X] ||| a ||| b ||| p(e|f)=0.5 p(f|e)={written} count={written}\n"
