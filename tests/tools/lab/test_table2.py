"""One command makes the table of grammars. Splits and heuristic grammars follow their definitions."""

import json
from collections import defaultdict
from pathlib import Path

import pytest
from tests.daemon.conftest import LINES
from tests.reference.examples import parse_links
from tests.tools.lab import definition as reference
from tests.tools.lab.grammars import write_bitext
from tests.tools.lab.programs import run_lab

from hierogram.daemon.exceptions import InputError
from hierogram.daemon.exports.options import ExportOptions
from hierogram.daemon.progress import progress
from hierogram.samplers.grammar.rules import parse_side
from hierogram.storage.store import open_store
from hierogram.tools.lab.comparison.heuristic_export import export_heuristic
from hierogram.tools.lab.papers.table2 import SYSTEMS, SystemRow, draw
from hierogram.tools.lab.papers.translations import ensure_store, split_bitext
from hierogram.tools.translation.rule_files import read_rule_file


@pytest.fixture(scope="module")
def bitext(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    return write_bitext(tmp_path_factory.mktemp("bitext"))


@pytest.mark.slow
def test_one_command_makes_the_table_of_grammars(bitext: list[str], tmp_path: Path) -> None:
    options = ["--work", str(tmp_path / "work"), "--tuning", "12", "--test", "12", "--iterations", "2"]
    output = run_lab("papers.table2", *bitext, *options)
    table = json.loads((tmp_path / "work" / "table2.json").read_text())
    rows = {row["name"]: row for row in table["rows"]}
    assert list(rows) == [system.name for system in SYSTEMS]
    assert all(f"\n{name}\t" in f"\n{output}" for name in rows)
    hiero = rows["Hiero"]
    assert (hiero["ratio"], hiero["p"]) == (1.0, None)
    assert hiero["rules"] == sum(hiero["by_scope"]) > rows["no singletons"]["rules"]
    assert 0 < rows["100th sample"]["ratio"] < 1
    assert rows["averaged"]["rules"] >= rows["100th sample"]["rules"]
    assert rows["averaged, Hiero's constraints"]["rules"] <= rows["averaged"]["rules"]
    assert rows["averaged"]["rules"] >= rows["0th sample"]["rules"]
    assert all(row["word_weight"] > 0 for row in rows.values())
    # Such regular patterns are learned well by all methods, but not before sampling.
    assert rows["0th sample"]["bleu"] < 50
    assert all(row["bleu"] > 90 for name, row in rows.items() if name != "0th sample")
    assert 0 <= table["p_of_sampling"] <= 1


def test_every_grammar_is_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from matplotlib import pyplot

    rows = [
        SystemRow(system.name, [1, k], 10 * k, 1.0, 20.0 + k, 1.0, None, 0.1, 1.0)
        for k, system in enumerate(SYSTEMS, 1)
    ]
    monkeypatch.setattr(pyplot, "close", lambda figure: None)
    draw(rows, tmp_path / "drawn.png", "ten pairs")
    _, names = pyplot.gca().get_legend_handles_labels()
    monkeypatch.undo()
    pyplot.close("all")
    assert names == [row.name for row in rows]
    assert (tmp_path / "drawn.png").stat().st_size > 0


def test_splits_share_no_source_sentence_and_are_refused_if_too_large(tmp_path: Path) -> None:
    source = [f"s{k // 3} x" for k in range(90)]
    target = [f"t{k} y" for k in range(90)]
    long = "z " * 40
    for name, lines in (("s", [*source, long, "only"]), ("t", [*target, "w", long])):
        (tmp_path / name).write_text("".join(line + "\n" for line in lines))
    files = [str(tmp_path / "s"), str(tmp_path / "t")]
    parts = split_bitext(files, tmp_path, tuning=5, test=6, references=3)
    assert (len(parts.tuning.sources), len(parts.test.sources)) == (5, 6)
    assert all(len(own) == 3 for own in parts.test.references)
    left = Path(parts.files[0]).read_text().splitlines()
    assert not {*left} & {*parts.tuning.sources, *parts.test.sources}
    assert not {*parts.tuning.sources} & {*parts.test.sources}
    assert len(left) == parts.pairs == 92 - 3 * 11
    assert parts.test.reference_columns()[2][0] == parts.test.references[0][2]
    with pytest.raises(InputError, match="can be held out"):
        split_bitext(files, tmp_path, tuning=5, test=31, references=3)


def test_heuristic_grammars_are_exported_with_their_counts(tmp_path: Path) -> None:
    for name, number in (("s", 0), ("t", 1), ("a", 2)):
        (tmp_path / name).write_text("".join(line.split(" ||| ")[number] + "\n" for line in LINES))
    url = ensure_store(tmp_path, "start", [str(tmp_path / name) for name in "sta"], 1)
    pairs = [
        (tuple(source.split()), tuple(target.split()), parse_links(links))
        for source, target, links in (line.split(" ||| ") for line in LINES)
    ]
    occurrences, wanted = reference.extract(pairs, 10, 5)
    options = ExportOptions(format="jsonl", max_scope=None)
    with open_store(url) as store:
        made, by_scope = export_heuristic(store, tmp_path / "hiero.jsonl", options)
        fewer, _ = export_heuristic(store, tmp_path / "fewer.jsonl", options, singletons=False)
    assert made == len(wanted) == sum(by_scope) > fewer > 0
    mass: dict[str, float] = defaultdict(float)
    exported = [json.loads(line) for line in (tmp_path / "hiero.jsonl").read_text().splitlines()]
    by_sides = {(parse_side(rule["source"]), parse_side(rule["target"])): rule for rule in exported}
    assert set(by_sides) == {(rule.source, rule.target) for rule in occurrences}
    for rule, expected in wanted.items():
        assert by_sides[rule.source, rule.target]["count"] == pytest.approx(float(expected), abs=1e-4)
        mass[by_sides[rule.source, rule.target]["source"]] += float(expected)
    for rule in exported:
        assert rule["p_target_given_source"] == pytest.approx(rule["count"] / mass[rule["source"]], abs=1e-3)
        assert 0 < rule["lex_target_given_source"] <= 1
    [whole] = [rule for rule in exported if (rule["source"], rule["target"]) == ("la maison", "the house")]
    assert whole["alignment"] == "0-0 1-1"
    with progress("read", "rules") as shown:
        assert len(read_rule_file(tmp_path / "hiero.jsonl", shown)[0].columns.features) == len(exported)
    assert ensure_store(tmp_path, "start", [], 1) == url
