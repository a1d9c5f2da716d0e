"""Every format is read back by a parser of its own, and says what a slow reference says."""

import csv
import json
from pathlib import Path

import pyarrow.parquet
import pytest
from tests.daemon.exports import parsers
from tests.daemon.exports.expected import expected
from tests.daemon.exports.parsers import Parsed
from tests.daemon.exports.rules import ODD, Given, write

from hierogram.daemon.exports.formats.registry import FORMATS
from hierogram.daemon.exports.options import ExportOptions
from hierogram.samplers.grammar.rules import Rule, parse_side


def check(found: list[Parsed], *, links: bool, samples: int = 1, order: bool = True) -> None:
    """All rules, in their order, and every value that the format has."""
    rules = sorted(ODD, key=lambda given: (given.source.encode(), given.target.encode()))
    by_sides = {(parse_side(given.source), parse_side(given.target)): given for given in rules}
    assert {(rule.source, rule.target) for rule in found} == set(by_sides)
    assert len(found) == len(rules)
    if order:
        assert [rule.source for rule in found] == [parse_side(given.source) for given in rules]
    for rule in found:
        given = by_sides[rule.source, rule.target]
        wanted = expected(given, samples)
        if links:
            assert rule.links == wanted.links
        for name, value in rule.values.items():
            unseen = name.startswith("lex_") and wanted.values[name] == 0
            if unseen:
                assert 0 < value < 1e-5
            else:
                assert value == pytest.approx(wanted.values[name], rel=2e-5), (given, name)


def test_every_format_has_its_test() -> None:
    assert set(FORMATS) == {"cdec", "moses", "joshua", "thrax", "jsonl", "tsv", "parquet", "fragments", "pcfg"}


@pytest.mark.parametrize("samples", [1, 8])
def test_cdec(tmp_path: Path, samples: int) -> None:
    path, written, _ = write(tmp_path, ODD, ExportOptions(format="cdec", max_scope=None), samples)
    found = [parsers.cdec(line) for line in parsers.lines(path)]
    check(found, links=True, samples=samples)
    assert {name for rule in found for name in rule.values} == set(FORMATS["cdec"].features)
    assert written.rules == len(ODD)


def test_thrax(tmp_path: Path) -> None:
    path, _, _ = write(tmp_path, ODD, ExportOptions(format="thrax", max_scope=None))
    found = [parsers.thrax(line) for line in parsers.lines(path)]
    check(found, links=False)
    assert set(found[0].values) == set(FORMATS["thrax"].features)
    assert parsers.lines(tmp_path / "g.glue")[1] == "[GOAL] ||| [GOAL,1] [X,2] ||| [GOAL,1] [X,2] ||| IsGlue=1"


def test_joshua(tmp_path: Path) -> None:
    names = list(FORMATS["joshua"].features)
    path, _, _ = write(tmp_path, ODD, ExportOptions(format="joshua", max_scope=None))
    check([parsers.joshua(line, names) for line in parsers.lines(path)], links=False)
    chosen = ["p_target_given_source", "count"]
    options = ExportOptions(format="joshua", max_scope=None, features=("count", "p_target_given_source"))
    path, written, _ = write(tmp_path, ODD, options, name="chosen")
    check([parsers.joshua(line, chosen) for line in parsers.lines(path)], links=False)
    assert [file.name for file in written.files] == ["chosen", "chosen.glue"]
    assert parsers.lines(tmp_path / "g.glue") == [
        "[GOAL] ||| <s> ||| <s> ||| 0",
        "[GOAL] ||| [GOAL,1] [X,2] ||| [GOAL,1] [X,2] ||| -1",
        "[GOAL] ||| [GOAL,1] </s> ||| [GOAL,1] </s> ||| 0",
    ]


def test_moses(tmp_path: Path) -> None:
    path, _, _ = write(tmp_path, ODD, ExportOptions(format="moses", max_scope=None))
    content = parsers.content(path)
    assert content.split(b"\n")[:-1] == sorted(content.split(b"\n")[:-1])
    check([parsers.moses(line) for line in parsers.lines(path)], links=True, order=False)
    # Words a and x are only linked to each other; b is linked to y once and to z once, y to b once and once to nothing.
    wanted = "a [X][X] b [X] ||| x [X][X] y [X] ||| 1 0.5 0.75 0.5 ||| 0-0 1-1 2-2 ||| 3 4 3 ||| |||"
    assert [line for line in parsers.lines(path) if line.startswith("a [X][X] b [X] ||| x [X][X] y")] == [wanted]
    glue = [line.split(" ||| ") for line in parsers.lines(tmp_path / "g.glue")]
    assert [(line[0], line[1], line[2], line[3]) for line in glue] == [
        ("<s> [X]", "<s> [S]", "1", "0-0"),
        ("[X][S] </s> [X]", "[X][S] </s> [S]", "1", "0-0 1-1"),
        ("[X][S] [X][X] [X]", "[X][S] [X][X] [S]", "2.718", "0-0 1-1"),
    ]


def of_table(row: dict[str, object]) -> Parsed:
    rule = Rule(parse_side(str(row["source"])), parse_side(str(row["target"])))
    assert row["scope"] == rule.scope
    assert row["nonterminals"] == rule.nonterminals
    texts = ("source", "target", "alignment", "scope", "nonterminals")
    values = {name: float(str(value)) for name, value in row.items() if name not in texts}
    return Parsed(rule.source, rule.target, parsers.links(str(row["alignment"])), values)


@pytest.mark.parametrize("samples", [1, 3])
def test_json_lines(tmp_path: Path, samples: int) -> None:
    path, _, _ = write(tmp_path, ODD, ExportOptions(format="jsonl", max_scope=None), samples)
    check([of_table(json.loads(line)) for line in parsers.lines(path)], links=True, samples=samples)


def test_tab_separated_values(tmp_path: Path) -> None:
    path, _, _ = write(tmp_path, ODD, ExportOptions(format="tsv", max_scope=None))
    # The default dialect but for the delimiter, as spreadsheets and pandas.read_csv(sep="\t") have it.
    head, *rows = csv.reader(parsers.content(path).decode().splitlines(keepends=True), delimiter="\t")
    assert '"q" {x} \'' in [row[1] for row in rows]
    typed = [
        {
            name: int(value) if name in ("scope", "nonterminals") else value
            for name, value in zip(head, row, strict=True)
        }
        for row in rows
    ]
    check([of_table(row) for row in typed], links=True)


def test_parquet(tmp_path: Path) -> None:
    path, written, _ = write(tmp_path, ODD, ExportOptions(format="parquet", max_scope=None))
    table = pyarrow.parquet.read_table(path)
    check([of_table(row) for row in table.to_pylist()], links=True)
    assert written.files[0].bytes == path.stat().st_size
    assert str(table.schema.field("p_target_given_source").type) == "double"


@pytest.mark.parametrize("format", sorted(FORMATS))
def test_the_same_rules_give_the_same_bytes(tmp_path: Path, format: str) -> None:
    rules = [Given(f"s{n % 40} [X,1]", f"[X,1] t{n % 60} u{n}", n % 7 + 1, "0-1 0-2") for n in range(3_000)]
    options = ExportOptions(format=format, max_scope=None)
    digests = set()
    for k, given in enumerate((rules, rules[::-1], rules[::2] + rules[1::2])):
        _, written, _ = write(tmp_path, given, options, name=str(k))
        digests.add(written.files[0].sha256)
    assert len(digests) == 1


@pytest.mark.parametrize("format", ["cdec", "moses", "joshua", "thrax", "jsonl", "tsv", "parquet"])
def test_an_empty_grammar_is_written_too(tmp_path: Path, format: str) -> None:
    path, written, counts = write(tmp_path, ODD, ExportOptions(format=format, min_count=1e6))
    assert written.rules == 0
    assert path.exists()
    assert counts[0].after == 0
