"""Rules of every export format can be read, and errors are reported with file and line."""

import gzip
from pathlib import Path

import numpy as np
import pytest
import zstandard
from tests.daemon.exports.expected import expected_rule
from tests.daemon.exports.rules import ODD, write

from hierogram.daemon.exceptions import InputError
from hierogram.daemon.exports.formats import BY_NAME
from hierogram.daemon.exports.lexicon import FLOOR
from hierogram.daemon.exports.options import ExportOptions
from hierogram.daemon.progress import progress
from hierogram.samplers.decoding.grammar import scopes
from hierogram.samplers.grammar.rules import Rule, parse_side
from hierogram.tools.translation.casing import Casing
from hierogram.tools.translation.grammars import open_grammar, pack_grammar, read_grammar, write_grammar
from hierogram.tools.translation.rule_files import TranslationRules, read_rule_file

ROUNDED = ("cdec", "moses")
WITH_LINKS = ("cdec", "moses", "jsonl", "tsv", "parquet")


def read(path: Path, format: str | None = None) -> TranslationRules:
    with progress("read", "rules") as shown:
        return read_rule_file(path, shown, format)[0]


def sides(table: TranslationRules, rule: int) -> tuple[tuple, tuple]:
    columns = table.columns
    source = columns.source[columns.source_start[rule] : columns.source_start[rule + 1]].tolist()
    target = columns.target[columns.target_start[rule] : columns.target_start[rule + 1]].tolist()
    return (
        tuple(-s if s < 0 else table.source_words[s] for s in source),
        tuple(-s if s < 0 else table.target_words[s] for s in target),
    )


@pytest.mark.parametrize("format", ["cdec", "moses", "jsonl", "tsv", "parquet"])
def test_rules_of_all_formats_are_read(tmp_path: Path, format: str) -> None:
    """The folder is named like a partition in other systems (`language=zh`)."""
    path, _, _ = write(tmp_path / "language=zh", ODD, ExportOptions(format=format, max_scope=None))
    table = read(path, format)
    found = {sides(table, rule): rule for rule in range(len(table.columns.features))}
    assert set(found) == {(parse_side(given.source), parse_side(given.target)) for given in ODD}
    for given in ODD:
        rule = found[parse_side(given.source), parse_side(given.target)]
        values = expected_rule(given).values
        for name, value in zip(table.features, table.columns.features[rule], strict=True):
            if values[name] == 0 and BY_NAME[name].lexical:
                # The reference has 0 for products of floors.
                assert value <= np.log(FLOOR) + 1e-3
                continue
            logarithmic = BY_NAME[name].logarithmic
            wanted = np.log(values[name]) if logarithmic else values[name]
            assert value == pytest.approx(wanted, rel=1e-5 if format in ROUNDED else 1e-9, abs=1e-5)
        if format in WITH_LINKS:
            first, last = table.columns.link_start[rule], table.columns.link_start[rule + 1]
            links = {f"{i}-{j}" for i, j in table.columns.links[first:last]}
            assert links == set(given.alignment.split())
    assert scopes(table.columns).tolist() == [
        Rule(sides(table, k)[0], ()).scope for k in range(len(table.columns.features))
    ]


@pytest.mark.parametrize("suffix", [".cdec.gz", ".cdec.zst", ".jsonl.zst", ".tsv.gz"])
def test_compressed_files_are_read_by_their_names(tmp_path: Path, suffix: str) -> None:
    format = suffix.split(".")[1]
    path, _, _ = write(tmp_path, ODD, ExportOptions(format=format, max_scope=None))
    content = path.read_bytes()
    compressed = gzip.compress(content) if suffix.endswith("gz") else zstandard.ZstdCompressor().compress(content)
    (tmp_path / f"rules{suffix}").write_bytes(compressed)
    assert len(read(tmp_path / f"rules{suffix}").columns.features) == len(ODD)


def test_grammars_of_other_programs_are_read(tmp_path: Path) -> None:
    path = tmp_path / "g.cdec"
    path.write_text(
        "[X] ||| [X,2] de [X,1] ||| [X,1] of [X,2] ||| Own=0.25 EgivenFCoherent=0.5\n"
        "[S] ||| [S,1] [X,2] ||| [S,1] [X,2] ||| Glue=1\n"
        "\n"
        "[X] ||| de ||| |||\n"
        "[X] ||| la ||| the ||| Own=-1e-2 ||| 0-0\r\n"
    )
    table = read(path)
    assert [sides(table, k) for k in range(3)] == [((1, "de", 2), (2, "of", 1)), (("de",), ()), (("la",), ("the",))]
    assert table.features == ("EgivenFCoherent", "Own")
    assert table.columns.features.tolist() == [[0.5, 0.25], [0.0, 0.0], [0.0, -0.01]]
    assert table.columns.links.tolist() == [[0, 0]]


@pytest.mark.parametrize(
    ("name", "line", "symbol"),
    [
        ("g.cdec", "[X] ||| [NN,1] de ||| of [NN,1] ||| Own=1", r"\[NN,1\]"),
        ("g.moses", "[X][X3] de [X] ||| of [X][X3] [X] ||| 1 1 1 1 ||| 0-1", r"\[X\]\[X3\]"),
    ],
)
def test_a_grammar_with_nonterminals_other_than_x_is_refused(tmp_path: Path, name: str, line: str, symbol: str) -> None:
    (tmp_path / name).write_text(line + "\n")
    with pytest.raises(InputError, match=f"{name}: nonterminal {symbol} is not supported"):
        read(tmp_path / name)


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("[X] ||| la", "expected source side"),
        ("[X] ||| la ||| the ||| Own=x", "not a number"),
        ("[X] ||| la ||| the ||| 0.5", "Name=value"),
        ("[X] ||| la ||| the ||| Own=1 ||| 0:0", "i-j"),
        ("[X] ||| la ||| the ||| Own=1 ||| 0-7", "do not match"),
        ("[X] ||| [X,1] la ||| the ||| Own=1", "do not match"),
        ("[X] ||| [X,1] la ||| [X,1] [X,1] ||| Own=1", "do not match"),
        ("[X] ||| la ||| [X,1] ||| Own=1", "do not match"),
    ],
)
def test_errors_are_reported_with_file_and_line(tmp_path: Path, line: str, reason: str) -> None:
    path = tmp_path / "g.cdec"
    path.write_text("[X] ||| a ||| b ||| Own=1\n\n" + line + "\n[X] ||| c ||| d ||| Own=1\n")
    with pytest.raises(InputError, match=f"g.cdec, line 3: .*{reason}"):
        read(path)


@pytest.mark.slow
def test_all_rules_of_a_large_file_are_read(tmp_path: Path) -> None:
    path = tmp_path / "g.cdec"
    lines = [
        f"[X] ||| s{n} [X,1] t{n % 977} ||| [X,1] u{n} {'w ' * (n % 9)}||| A={n}.5 B=-{n}e-3" for n in range(100_000)
    ]
    path.write_text("\n".join(lines))
    table = read(path)
    assert len(table.columns.features) == 100_000
    for rule in (0, 65_535, 65_536, 99_999):
        assert sides(table, rule) == ((f"s{rule}", 1, f"t{rule % 977}"), (1, f"u{rule}", *["w"] * (rule % 9)))
        assert table.columns.features[rule].tolist() == pytest.approx([rule + 0.5, -rule / 1000])


def test_a_file_of_unknown_format_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "rules.txt"
    path.write_text("[X] ||| a ||| b ||| Own=1\n")
    with pytest.raises(InputError, match="use --format"):
        read(path)
    assert len(read(path, "cdec").columns.features) == 1
    with pytest.raises(InputError, match="is not a format of translation rules"):
        read(path, "fragments")


@pytest.mark.parametrize("name", ["g.cdec", "g.jsonl", "g.tsv", "g.parquet"])
def test_a_missing_rule_file_is_reported(tmp_path: Path, name: str) -> None:
    with pytest.raises(InputError, match=rf"/{name}: cannot be opened: No such file or directory$"):
        read(tmp_path / name)


def test_the_binary_format_preserves_the_grammar_and_detects_damage(tmp_path: Path) -> None:
    path, _, _ = write(tmp_path, ODD, ExportOptions(format="parquet", max_scope=None))
    grammar = pack_grammar(read(path, "parquet"), 2, target_casing=Casing({"may": ("may", "May")}, "en", True, False))
    assert grammar.wide == 2
    write_grammar(tmp_path / "g.bin", grammar)
    with progress("read", "rules") as shown:
        again = open_grammar(str(tmp_path / "g.bin"), 2, shown)
    assert again.features == grammar.features
    assert again.source_words == grammar.source_words
    assert again.target_words == grammar.target_words
    assert again.target_casing == grammar.target_casing
    for one, other in zip(again.packed, grammar.packed, strict=True):
        np.testing.assert_array_equal(one, other)
    damaged = bytearray((tmp_path / "g.bin").read_bytes())
    damaged[len(damaged) // 2] ^= 1
    (tmp_path / "g.bin").write_bytes(damaged)
    with pytest.raises(InputError, match="damaged"):
        read_grammar(str(tmp_path / "g.bin"))
