"""Format and file names follow from an export's name, options and kind of grammar. Contradictions are refused."""

from pathlib import Path

import pytest
from tests.daemon.conftest import Run
from tests.daemon.exports.parsers import content

from hierogram.daemon.exceptions import ExportError, UsageError
from hierogram.daemon.exports.exporting import glue_name, resolve_plan
from hierogram.daemon.exports.formats import FORMATS
from hierogram.daemon.exports.options import ExportOptions
from hierogram.daemon.files import Compression
from hierogram.samplers.grammar.kinds import GRAMMAR_KINDS
from hierogram.samplers.grammar.settings import SYNCHRONOUS, TREES
from hierogram.storage.options import OptionError

PHRASES, FRAGMENTS = GRAMMAR_KINDS[SYNCHRONOUS], GRAMMAR_KINDS[TREES]
GZIP, ZSTD, NONE = Compression.GZIP, Compression.ZSTD, Compression.NONE


@pytest.mark.parametrize(
    ("path", "options", "wanted"),
    [
        (None, ExportOptions(), ("cdec", GZIP, ".cdec.gz")),
        (None, ExportOptions(format="moses"), ("moses", GZIP, ".moses.gz")),
        (None, ExportOptions(format="jsonl"), ("jsonl", ZSTD, ".jsonl.zst")),
        (None, ExportOptions(format="parquet"), ("parquet", NONE, ".parquet")),
        (None, ExportOptions(format="moses", compression="none"), ("moses", NONE, ".moses")),
        ("g.parquet", ExportOptions(), ("parquet", NONE, ".parquet")),
        ("g.moses.gz", ExportOptions(), ("moses", GZIP, ".moses.gz")),
        ("g.tsv", ExportOptions(), ("tsv", NONE, ".tsv")),
        ("rules.gz", ExportOptions(format="moses"), ("moses", GZIP, ".moses.gz")),
        ("grammar.txt.gz", ExportOptions(), ("cdec", GZIP, ".cdec.gz")),
        ("g.jsonl.zst", ExportOptions(), ("jsonl", ZSTD, ".jsonl.zst")),
        ("g", ExportOptions(compression="gzip"), ("cdec", GZIP, ".cdec.gz")),
        ("-", ExportOptions(), ("cdec", NONE, ".cdec")),
    ],
)
def test_names_and_options_determine_format_and_compression(
    path: str | None, options: ExportOptions, wanted: tuple[str, Compression, str]
) -> None:
    how = resolve_plan(options, PHRASES, None if path is None else Path(path))
    assert (how.format.name, how.compression, how.suffix) == wanted
    assert how.options.format == wanted[0]


@pytest.mark.parametrize(
    ("path", "options", "message"),
    [
        ("g.parquet.gz", ExportOptions(format="parquet"), "parquet has its own compression"),
        ("g.parquet.zst", ExportOptions(), "parquet has its own compression"),
        ("g.tsv.gz", ExportOptions(format="cdec"), "the suffix means tsv, but --format is cdec"),
        ("g.gz", ExportOptions(compression="zstd"), "the suffix means gzip, but --compression is zstd"),
        ("g.tsv.zst", ExportOptions(compression="none"), "the suffix means zstd, but --compression is none"),
        ("g.zst", ExportOptions(), "g.zst: readers of cdec do not support zstd: use gzip"),
        ("g.cdec.zst", ExportOptions(), "g.cdec.zst: readers of cdec do not support zstd"),
        ("g.moses.zst", ExportOptions(), "readers of moses do not support zstd"),
        ("g.s2t.zst", ExportOptions(), "readers of shortlist do not support zstd"),
        ("g.vmap.zst", ExportOptions(), "readers of vmap do not support zstd"),
    ],
)
def test_contradictory_names_and_options_are_refused(path: str, options: ExportOptions, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        resolve_plan(options, PHRASES, Path(path))


def test_the_default_format_depends_on_the_kind_of_grammar() -> None:
    assert resolve_plan(ExportOptions(), FRAGMENTS).suffix == ".fragments.zst"
    with pytest.raises(ExportError, match=r"a store of trees cannot be exported as moses: use fragments, pcfg"):
        resolve_plan(ExportOptions(format="moses"), FRAGMENTS)


def test_moses_and_cdec_formats_are_compressed_with_gzip_only() -> None:
    assert {FORMATS[name].compression for name in ("cdec", "moses")} == {GZIP}


@pytest.mark.parametrize("format", ["cdec", "moses", "bicleaner", "ttable"])
def test_compression_that_the_reader_does_not_support_is_refused(format: str) -> None:
    with pytest.raises(OptionError, match="its own compression"):
        ExportOptions(format="parquet", compression="gzip")
    with pytest.raises(OptionError, match=f"readers of {format} do not support zstd"):
        ExportOptions(format=format, compression="zstd")
    with pytest.raises(UsageError, match="readers of cdec do not support zstd"):
        resolve_plan(ExportOptions(compression="zstd"), PHRASES)


def test_glue_rules_are_named_like_their_grammar() -> None:
    assert [glue_name(name) for name in ("g.moses.gz", "g.moses")] == ["g.moses.glue.gz", "g.moses.glue"]


@pytest.mark.slow
@pytest.mark.database("sqlite")
def test_export_command_chooses_names_and_compression_of_files(learned_url: str, hierogram: Run) -> None:
    for arguments, name, magic in (
        ((), "grammar.cdec.gz", b"\x1f\x8b"),
        (("--format", "parquet"), "grammar.parquet", b"PAR1"),
        (("-f", "tsv"), "grammar.tsv.zst", b"\x28\xb5\x2f\xfd"),
        (("-o", "g.moses.gz"), "g.moses.gz", b"\x1f\x8b"),
    ):
        ran = hierogram("--store", learned_url, "export", *arguments)
        assert (ran.code, ran.out.split(": ")[0]) == (0, name), ran.err
        assert Path(name).read_bytes().startswith(magic)
        assert Path(name + ".json").exists()
    assert " ||| " in content(Path("g.moses.glue.gz")).decode()


@pytest.mark.database("sqlite")
def test_a_grammar_is_written_to_standard_output(learned_url: str, hierogram: Run) -> None:
    assert hierogram("--store", learned_url, "export", "-o", "g.moses").code == 0
    ran = hierogram("--store", learned_url, "export", "-o", "-", "-f", "moses")
    assert (ran.code, ran.out) == (0, Path("g.moses").read_text())
    assert "the manifest is the newest row of the table exports" in ran.err
    assert "glue rules are not written" in ran.err
    assert {path.name for path in Path.cwd().iterdir() if path.suffix != ".db"} >= {"g.moses", "g.moses.json"}
    assert not list(Path.cwd().glob("-*"))


@pytest.mark.database("sqlite")
@pytest.mark.parametrize("to", [("-o", "g.tsv"), ("-o", "-"), ("--to", "versions")])
def test_export_command_warns_if_no_rules_are_left(learned_url: str, hierogram: Run, to: tuple[str, ...]) -> None:
    ran = hierogram("--store", learned_url, "export", *to, "--min-count", "1e6")
    assert ran.code == 0
    assert "hierogram: no rules left after filtering by count ≥ 1e+06: relax the filters\n" in ran.err
    assert "no rules left" not in hierogram("--store", learned_url, "export", *to).err


@pytest.mark.database("sqlite")
@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("-o", "g", "--to", "folder"), "--to: "),
        (("--keep", "3"), "--keep: "),
        (("-o", "g.parquet.gz"), "its own compression"),
        (("-o", "-", "--json"), "both write to standard output"),
        (("--to", "folder", "--name", "../up"), "--name: "),
        (("--min-count", "inf"), "--min-count: must be finite, got inf"),
        (("--min-expected", "inf"), "--min-expected: must be finite, got inf"),
        (("-o", "folder/"), "--output: folder/ is a folder"),
    ],
)
def test_invalid_or_contradictory_options_of_export_are_refused(
    learned_url: str, hierogram: Run, arguments: tuple[str, ...], message: str
) -> None:
    before = set(Path.cwd().iterdir())
    ran = hierogram("--store", learned_url, "export", *arguments)
    assert ran.code == 2
    assert message in ran.err
    assert set(Path.cwd().iterdir()) == before
