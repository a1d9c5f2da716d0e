"""Independent parsers read every format back, and a slow reference gives the expected values."""

import csv
import json
import math
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import NamedTuple

import pyarrow.parquet
import pytest
from tests.daemon.exports import parsers
from tests.daemon.exports.expected import expected_rule
from tests.daemon.exports.parsers import Parsed
from tests.daemon.exports.rules import ODD, Given, write

from hierogram.daemon.exports.formats import BY_NAME, DEFAULT_WEIGHTS, FORMATS
from hierogram.daemon.exports.options import ExportOptions
from hierogram.samplers.grammar.rules import Rule, parse_side


@pytest.mark.parametrize("seen", [0.0, 3.0, 40.0])
def test_part_of_a_grammar_is_smoothed_like_the_whole_grammar(tmp_path: Path, seen: float) -> None:
    rules = [Given("a", "x", 6), Given("a", "y", 2), Given("b", "x", 1)]
    options = ExportOptions(format="tsv", features=("p_target_given_source",), smoothing=0.5)
    path, _, _ = write(tmp_path, rules, options, min_seen=seen)
    found = [float(line.split("\t")[-1]) for line in parsers.lines(path)[1:]]
    back_off = max(seen, 3)
    expected = [(5.5 + 2 * 0.5 * 2 / back_off) / 8, (1.5 + 2 * 0.5 * 1 / back_off) / 8, 0.5 + 0.5 * 2 / back_off]
    assert found == pytest.approx(expected, rel=1e-6)


def check(found: list[Parsed], *, links: bool, samples: int = 1, order: bool = True) -> None:
    """Check all rules and every value of the format, and optionally the links and the order of the source sides."""
    rules = sorted(ODD, key=lambda given: (given.source.encode(), given.target.encode()))
    by_sides = {(parse_side(given.source), parse_side(given.target)): given for given in rules}
    assert {(rule.source, rule.target) for rule in found} == set(by_sides)
    assert len(found) == len(rules)
    if order:
        assert [rule.source for rule in found] == [parse_side(given.source) for given in rules]
    for rule in found:
        given = by_sides[rule.source, rule.target]
        wanted = expected_rule(given, samples)
        if links:
            assert rule.links == wanted.links
        for name, value in rule.values.items():
            unseen = name.startswith("lex_") and wanted.values[name] == 0
            if unseen:
                assert 0 < value < 1e-5
            else:
                assert value == pytest.approx(wanted.values[name], rel=2e-5), (given, name)


def test_every_grammar_format_is_tested() -> None:
    grammar_formats = {name for name, format in FORMATS.items() if not format.word_list}
    assert grammar_formats == {"cdec", "moses", "jsonl", "tsv", "parquet", "fragments", "pcfg"}


@pytest.mark.parametrize("samples", [1, 8])
def test_cdec_files_contain_all_rules(tmp_path: Path, samples: int) -> None:
    path, written, _ = write(tmp_path, ODD, ExportOptions(format="cdec", max_scope=None), samples)
    found = [parsers.cdec(line) for line in parsers.lines(path)]
    check(found, links=True, samples=samples)
    assert {name for rule in found for name in rule.values} == set(FORMATS["cdec"].features)
    assert written[0] == len(ODD)
    assert not (tmp_path / "g.glue").exists()


def test_moses_files_contain_all_rules_with_their_scores_and_glue_rules(tmp_path: Path) -> None:
    path, _, _ = write(tmp_path, ODD, ExportOptions(format="moses", max_scope=None))
    content = parsers.content(path)
    assert content.split(b"\n")[:-1] == sorted(content.split(b"\n")[:-1])
    names = list(FORMATS["moses"].features)
    check([parsers.moses(line, names) for line in parsers.lines(path)], links=True, order=False)
    options = ExportOptions(format="moses", max_scope=None, features=tuple(names[:4]), smoothing=0)
    path, _, _ = write(tmp_path, ODD, options, name="four")
    # Words a and x are only linked to each other; b is linked to y once and to z once, y to b once and once to nothing.
    wanted = "a [X][X] b [X] ||| x [X][X] y [X] ||| 1 0.5 0.75 0.5 ||| 0-0 1-1 2-2 ||| 3 4 3 ||| |||"
    assert [line for line in parsers.lines(path) if line.startswith("a [X][X] b [X] ||| x [X][X] y")] == [wanted]
    glue = [line.split(" ||| ") for line in parsers.lines(tmp_path / "g.glue")]
    assert [(line[0], line[1], line[2], line[3]) for line in glue] == [
        ("<s> [X]", "<s> [S]", "1", "0-0"),
        ("[X][S] </s> [X]", "[X][S] </s> [S]", "1", "0-0 1-1"),
        ("[X][S] [X][X] [X]", "[X][S] [X][X] [S]", "2.718", "0-0 1-1"),
    ]


class Decoder(NamedTuple):
    """Scoring function and weights read from a decoder's exported configuration."""

    rule: Callable[[str], float]
    glue: float
    word: float
    unknown: float
    lm: float


def read_cdec(folder: Path) -> Decoder:
    ini = dict(line.split("=", 1) for line in (folder / "g.ini").read_text().splitlines())
    assert (ini["formalism"], ini["grammar"], ini["add_pass_through_rules"]) == ("scfg", "g", "true")
    weights = {name: float(value) for name, value in map(str.split, (folder / "g.weights").read_text().splitlines())}

    def rule(line: str) -> float:
        named = (feature.split("=") for feature in line.split(" ||| ")[3].split(" "))
        return sum(weights[name] * float(value) for name, value in named)

    word = weights["WordPenalty"] * -1 / math.log(10)
    return Decoder(rule, weights["Glue"], word, weights["PassThrough"], weights["LanguageModel"] / math.log(10))


def read_moses(folder: Path) -> Decoder:
    sections: dict[str, list[str]] = {}
    for line in (folder / "g.ini").read_text().splitlines():
        if line.startswith("["):
            own = sections[line[1:-1]] = []
        elif line:
            own.append(line)
    assert (sections["mapping"], sections["search-algorithm"]) == (["0 T 0", "1 T 1"], ["3"])
    assert len(sections["max-chart-span"]) == 2
    tables = [line.split(" ") for line in sections["feature"] if line.startswith("PhraseDictionaryMemory ")]
    described = [dict(part.split("=") for part in table[1:]) for table in tables]
    named = [(table["name"], table["path"]) for table in described]
    assert named == [("TranslationModel0", "g"), ("TranslationModel1", "g.glue")]
    weights = {}
    for line in sections["weight"]:
        name, values = line.removeprefix("# Language model: ").split("= ")
        weights[name] = [float(value) for value in values.split(" ")]
    assert [len(weights[table["name"]]) for table in described] == [int(table["num-features"]) for table in described]

    def score(line: str, table: str) -> float:
        scores = map(float, line.split(" ||| ")[2].split(" "))
        return sum(weight * math.log(value) for weight, value in zip(weights[table], scores, strict=True))

    glue = score(parsers.lines(folder / "g.glue")[2], "TranslationModel1")
    word, unknown = -weights["WordPenalty0"][0], -100 * weights["UnknownWordPenalty0"][0]
    return Decoder(lambda line: score(line, "TranslationModel0"), glue, word, unknown, weights["LM0"][0])


READERS = {"cdec": read_cdec, "moses": read_moses}


@pytest.mark.parametrize("format", READERS)
def test_scores_by_exported_configurations_equal_scores_by_the_default_weights(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, format: str
) -> None:
    random = Random(1)
    for name in (*BY_NAME, "lm", "words", "rules", "unknown"):
        monkeypatch.setitem(DEFAULT_WEIGHTS, name, random.uniform(-2, 2))
    path, written, _ = write(tmp_path, ODD, ExportOptions(format=format, max_scope=None))
    assert all((tmp_path / file.name).stat().st_size == file.bytes for file in written[1])
    decoder = READERS[format](tmp_path)
    found = (decoder.glue, decoder.word, decoder.unknown, decoder.lm)
    assert found == pytest.approx([DEFAULT_WEIGHTS[name] for name in ("glue", "words", "unknown", "lm")], rel=1e-3)
    names = FORMATS[format].features
    wanted = []
    for values in (expected_rule(given).values for given in ODD):
        # Words without links in any pair have no lexical weight to compare.
        if all(values[name] > 0 for name in names if parsers.is_logarithm(name)):
            terms = ((name, math.log(values[name]) if parsers.is_logarithm(name) else values[name]) for name in names)
            wanted.append(sum(DEFAULT_WEIGHTS[name] * value for name, value in terms))
    assert len(wanted) == 5
    scores = [decoder.rule(line) for line in parsers.lines(path)]
    assert all(min(abs(score - own) for own in scores) < 1e-3 for score in wanted)


def parse_row(row: dict[str, object]) -> Parsed:
    rule = Rule(parse_side(str(row["source"])), parse_side(str(row["target"])))
    assert row["scope"] == rule.scope
    assert row["nonterminals"] == rule.nonterminals
    texts = ("source", "target", "alignment", "scope", "nonterminals")
    values = {name: float(str(value)) for name, value in row.items() if name not in texts}
    return Parsed(rule.source, rule.target, parsers.links(str(row["alignment"])), values)


@pytest.mark.parametrize("samples", [1, 3])
def test_json_lines_contain_all_rules(tmp_path: Path, samples: int) -> None:
    path, _, _ = write(tmp_path, ODD, ExportOptions(format="jsonl", max_scope=None), samples)
    check([parse_row(json.loads(line)) for line in parsers.lines(path)], links=True, samples=samples)


def test_tab_separated_values_contain_all_rules(tmp_path: Path) -> None:
    path, _, _ = write(tmp_path, ODD, ExportOptions(format="tsv", max_scope=None))
    # Only the delimiter differs from the default dialect, which is read by spreadsheets and pandas.read_csv(sep="\t").
    head, *rows = csv.reader(parsers.content(path).decode().splitlines(keepends=True), delimiter="\t")
    assert '"q" {x} \'' in [row[1] for row in rows]
    typed = [
        {
            name: int(value) if name in ("scope", "nonterminals") else value
            for name, value in zip(head, row, strict=True)
        }
        for row in rows
    ]
    check([parse_row(row) for row in typed], links=True)


def test_parquet_files_contain_all_rules(tmp_path: Path) -> None:
    path, written, _ = write(tmp_path, ODD, ExportOptions(format="parquet", max_scope=None))
    table = pyarrow.parquet.read_table(path)
    check([parse_row(row) for row in table.to_pylist()], links=True)
    assert written[1][0].bytes == path.stat().st_size
    assert str(table.schema.field("p_target_given_source").type) == "double"


@pytest.mark.slow
@pytest.mark.parametrize("format", [name for name, format in FORMATS.items() if not format.word_list])
def test_order_of_rules_does_not_change_exported_bytes(tmp_path: Path, format: str) -> None:
    rules = [Given(f"s{n % 40} [X,1]", f"[X,1] t{n % 60} u{n}", n % 7 + 1, "0-1 0-2") for n in range(3_000)]
    options = ExportOptions(format=format, max_scope=None)
    digests = set()
    for k, given in enumerate((rules, rules[::-1], rules[::2] + rules[1::2])):
        _, written, _ = write(tmp_path, given, options, name=str(k))
        digests.add(written[1][0].sha256)
    assert len(digests) == 1


@pytest.mark.parametrize("format", ["cdec", "moses", "jsonl", "tsv", "parquet"])
def test_empty_grammars_are_written_in_every_format_of_phrase_rules(tmp_path: Path, format: str) -> None:
    path, written, counts = write(tmp_path, ODD, ExportOptions(format=format, min_count=1e6))
    assert written[0] == 0
    assert path.exists()
    assert counts[0].after == 0
