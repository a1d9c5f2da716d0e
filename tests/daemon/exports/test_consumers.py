"""Exports are read by other tools, and versions are followed by packaging/follow.py."""

import hashlib
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import duckdb
import pandas
import polars
import pytest
from tests.daemon.exports import parsers

from hierogram.daemon.exports.exporting import export, publish
from hierogram.daemon.exports.options import ExportOptions
from hierogram.daemon.exports.publication import Versions
from hierogram.storage.store import Store

SCRIPT = Path(__file__).parents[3] / "packaging" / "follow.py"
COUNTS = ("count", "target_count")
Rows = list[tuple[str, str, float]]


@pytest.fixture(scope="module")
def exports() -> dict[str, tuple[Path, Rows]]:
    """Cache of the fixture `exported`, by database."""
    return {}


@pytest.fixture
def exported(
    learned: Store, exports: dict[str, tuple[Path, Rows]], tmp_path_factory: pytest.TempPathFactory
) -> tuple[Path, Rows]:
    """A folder with the rules in all formats for analysis, and the rules of the store with their counts."""
    database = learned.engine.dialect.name
    if database not in exports:
        folder = tmp_path_factory.mktemp("exported")
        for name in ("g.parquet", "g.tsv.zst", "g.jsonl.zst"):
            export(learned, folder / name, ExportOptions(max_scope=None, current_sample=True, features=COUNTS))
        rules = learned.find_rules(limit=10_000, current_sample=True)
        exports[database] = folder, sorted((rule.source, rule.target, float(rule.count)) for rule in rules)
    return exports[database]


def test_pandas_and_polars_read_the_rules_of_the_store(exported: tuple[Path, Rows]) -> None:
    folder, wanted = exported
    frames = [
        pandas.read_parquet(folder / "g.parquet"),
        pandas.read_csv(folder / "g.tsv.zst", sep="\t", keep_default_na=False),
    ]
    for frame in frames:
        rows = frame[["source", "target", "count"]].itertuples(index=False, name=None)
        assert sorted(rows) == wanted
        assert (frame.groupby("target")["count"].transform("sum") == frame["target_count"]).all()
    assert sorted(polars.read_parquet(folder / "g.parquet")["source", "target", "count"].rows()) == wanted


@pytest.mark.database("sqlite")
@pytest.mark.parametrize("query", ["'{}/g.parquet'", "read_json('{}/g.jsonl.zst')"])
def test_duckdb_reads_the_rules_of_parquet_and_jsonl_exports(exported: tuple[Path, Rows], query: str) -> None:
    folder, wanted = exported
    with duckdb.connect() as connection:
        rows = connection.execute(f"SELECT source, target, count FROM {query.format(folder)}").fetchall()
    assert sorted((source, target, float(count)) for source, target, count in rows) == wanted


@pytest.mark.database("sqlite")
def test_zstd_decompresses_exports(exported: tuple[Path, Rows]) -> None:
    folder, wanted = exported
    subprocess.run(["zstd", "-d", "-q", "g.jsonl.zst"], cwd=folder, check=True)
    assert (folder / "g.jsonl").read_bytes() == parsers.content(folder / "g.jsonl.zst")
    assert len(parsers.lines(folder / "g.jsonl")) == len(wanted)


@pytest.mark.database("sqlite")
@pytest.mark.parametrize("format", ["cdec", "moses"])
def test_parsers_of_decoder_formats_read_the_rules_of_the_store(learned: Store, tmp_path: Path, format: str) -> None:
    path = tmp_path / f"g.{format}.gz"
    manifest = export(learned, path, ExportOptions(max_scope=None, current_sample=True))
    read = parsers.cdec if format == "cdec" else lambda line: parsers.moses(line, manifest.features)
    parsed = [read(line) for line in parsers.lines(path)]

    def shown(side: tuple[str | int, ...]) -> str:
        return " ".join(f"[X,{symbol}]" if isinstance(symbol, int) else symbol for symbol in side)

    found = sorted((shown(rule.source), shown(rule.target), round(rule.values["count"])) for rule in parsed)
    assert found == sorted((r.source, r.target, r.count) for r in learned.find_rules(limit=10_000, current_sample=True))


def publish_versions(store: Store, folder: Path, counts: range) -> set[tuple[str, str]]:
    """Publish versions and keep only the newest. Returns their names and digests."""
    found = set()
    for count in counts:
        options = ExportOptions(max_scope=None, current_sample=True, min_count=count)
        made = publish(store, Versions(folder, "news", keep=1), options)
        found.add((made.folder.name, made.manifest.sha256))
    return found


@pytest.mark.slow
@pytest.mark.database("sqlite")
def test_follow_script_loads_complete_versions_during_publication(learned: Store, tmp_path: Path) -> None:
    folder = tmp_path / "grammars"
    published = publish_versions(learned, folder, range(1))
    code: dict[str, Any] = {"__name__": "follow"}
    exec(SCRIPT.read_text(), code)
    grammar = code["Grammar"](folder)
    seen = []
    with ThreadPoolExecutor(1) as other:
        publishing = other.submit(publish_versions, learned, folder, range(1, 4))
        while not publishing.done():
            grammar.refresh()
            seen.append((grammar.version.name, grammar.manifest["sha256"]))
            assert len(grammar.rules) == grammar.manifest["rules"]
        published |= publishing.result()
    assert set(seen) <= published
    assert len(set(seen)) > 1
    grammar.refresh()
    assert not grammar.refresh()
    assert grammar.version.name == max(name for name, _ in published)
    [file] = grammar.version.glob("grammar.cdec.gz")
    assert hashlib.sha256(file.read_bytes()).hexdigest() == grammar.manifest["sha256"]
    assert grammar.rules == parsers.lines(file)


@pytest.mark.database("sqlite")
def test_follow_script_prints_each_version(learned: Store, tmp_path: Path) -> None:
    folder = tmp_path / "grammars"
    [(first, _)] = publish_versions(learned, folder, range(1))
    command = [sys.executable, str(SCRIPT), str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        assert running.stdout.readline().startswith(f"{first} ")
        [(second, _)] = publish_versions(learned, folder, range(1, 2))
        assert running.stdout.readline().startswith(f"{second} ")
        running.terminate()
