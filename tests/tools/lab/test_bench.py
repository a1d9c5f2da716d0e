"""The benchmarks run on a small bitext and report their measurements."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.daemon.conftest import Run

from hierogram.daemon.exceptions import UsageError
from hierogram.storage.store import open_store
from hierogram.tools.lab import bench
from hierogram.tools.lab.measures import results
from hierogram.tools.lab.measures.exporting import create_large_store
from hierogram.tools.lab.measures.results import Corpus, Figures, Measure
from hierogram.tools.lab.measures.stores import measure_ingest

SECTIONS = ("forests", "sweeps", "ingest", "learning")


@pytest.fixture(scope="module")
def bitext(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("bitext")
    lines = {
        "f": [f"le chat {k % 7} dort ici" for k in range(40)],
        "e": [f"the cat {k % 7} sleeps here" for k in range(40)],
        "a": ["0-0 1-1 2-2 3-3 4-4" for _ in range(40)],
    }
    for name, content in lines.items():
        (folder / name).write_text("\n".join(content) + "\n")
    return [str(folder / name) for name in lines]


Measured = Callable[..., Any]


@pytest.fixture
def measured(lab: Run, monkeypatch: pytest.MonkeyPatch) -> Measured:
    """Function that runs `bench --json` within this process, which must succeed, and returns its report."""

    def measure_here(measure: Measure, corpus: Corpus) -> Figures:
        return measure(corpus) | {"peak_memory_mb": 1.0}

    monkeypatch.setattr(results, "measure_in_process", measure_here)

    def run(*arguments: str) -> Any:
        ran = lab("bench", *arguments, "--json")
        assert ran.code == 0, ran.err
        return json.loads(ran.out)

    return run


@pytest.mark.slow
def test_each_section_is_measured_in_a_separate_process(lab: Run, bitext: list[str]) -> None:
    figures = json.loads(lab("bench", *bitext, "--json", "--only", "forests").out)["sections"]["forests"]
    assert figures["nodes"] == 40 * 15
    assert figures["peak_memory_mb"] > 1


@pytest.mark.slow
def test_the_benchmark_reports_every_section_as_json(measured: Measured, bitext: list[str]) -> None:
    chosen = [word for name in SECTIONS for word in ("--only", name)]
    report = measured(*bitext, *chosen)
    sections = report["sections"]
    assert set(sections) == set(SECTIONS)
    assert report["machine"]["cores"] >= 1
    # Monotone five-word pairs have 15 phrases each. A phrase has an edge for each split, or one edge if it is a word.
    assert sections["forests"]["nodes"] == 40 * 15
    assert sections["forests"]["edges"] == 40 * (5 + 4 * 1 + 3 * 2 + 2 * 3 + 1 * 4)
    assert sections["sweeps"]["log_likelihood_after"] > sections["sweeps"]["log_likelihood_before"]
    assert sections["ingest"]["sqlite"]["pairs"] == 40
    assert sections["learning"]["export_rules"] == sections["learning"]["rules_in_store"]
    assert all(figures["peak_memory_mb"] > 0 for figures in sections.values())


@pytest.mark.slow
def test_times_of_queries_are_measured(measured: Measured, bitext: list[str]) -> None:
    queries = measured(*bitext, "--only", "queries", "--rules", "3000")["sections"]["queries"]
    assert 3_000 <= queries["rules"] < 3_100
    for name in ("by_source_side", "by_word"):
        assert 0 < queries[name]["median_ms"] <= queries[name]["max_ms"]


@pytest.mark.slow
def test_exports_are_measured_with_and_without_lexical_weights(measured: Measured, bitext: list[str]) -> None:
    options = ["--only", "exporting", "--rules", "100"]
    figures = measured(*bitext, *options)["sections"]["exporting"]
    for case in ("cdec", "cdec with lexical weights"):
        assert figures[case]["rules"] == figures["rules"] > 0
        assert figures[case]["peak_memory_mb"] > 0


def test_a_generated_store_contains_only_the_first_pairs(bitext: list[str], tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/rules.db"
    sizes = create_large_store(url, Corpus(*bitext, pairs=20, rules=50))
    assert sizes == {"pairs": 20, "rules": 50}
    with open_store(url) as store:
        assert store.count_pairs() == 20


@pytest.mark.slow
def test_samplers_of_raw_pairs_are_measured(measured: Measured, bitext: list[str]) -> None:
    options = ["--only", "itg"]
    figures = measured(*bitext[:2], *options)["sections"]["itg"]
    assert (figures["pairs"], figures["words"]) == (40, 400)
    for sampler in ("slice_0.10", "slice_0.15", "slice_0.25", "flat_0.15", "gibbs", "exhaustive"):
        assert figures[sampler]["pairs_per_second"] > 0
        assert 0 < figures[sampler]["acceptance"] <= 1


@pytest.mark.slow
def test_the_size_and_reading_time_of_a_translation_grammar_are_measured(measured: Measured, bitext: list[str]) -> None:
    options = ["--only", "translating", "--rules", "1000"]
    figures = measured(*bitext, *options)["sections"]["translating"]
    assert 0 < figures["rules"] <= 1000
    assert figures["ngrams"] > 0
    assert figures["reading_seconds"] > 0
    assert figures["sentences"] == 0


@pytest.mark.campaign
def test_response_times_of_pages_are_measured(measured: Measured, bitext: list[str]) -> None:
    options = ["--only", "pages", "--rules", "100"]
    figures = measured(*bitext, *options)["sections"]["pages"]["sqlite"]
    assert figures["rules"] > 0
    for name in ("search for a word", "search by probability", "rule", "word", "all"):
        assert 0 < figures[name]["median_ms"] <= figures[name]["95th_percentile_ms"] <= figures[name]["max_ms"]
        assert 0 < figures[name]["share_within_300_ms"] <= 1


@pytest.mark.slow
def test_response_times_of_evidence_are_measured(measured: Measured, bitext: list[str]) -> None:
    options = ["--only", "services", "--rules", "100"]
    report = measured(*bitext, *options)
    evidence = report["sections"]["services"]["sqlite"]
    assert (evidence["rules"], evidence["pairs"]) == (100, 40)
    assert 0 < evidence["median_ms"] <= evidence["95th_percentile_ms"]


def test_the_performance_document_names_every_section() -> None:
    document = (Path(__file__).parents[3] / "docs" / "performance.md").read_text()
    table = document.split("| section | measures |")[1].split("\n\n")[0]
    assert sorted(re.findall(r"`(\w+)`", re.sub(r"\|[^|]*\|$", "", table, flags=re.MULTILINE))) == sorted(
        bench.SECTIONS
    )


def test_an_unknown_section_is_refused(lab: Run, bitext: list[str]) -> None:
    refused = lab("bench", *bitext, "--only", "nothing")
    assert (refused.code, "unknown section" in refused.err) == (2, True)


def test_parsing_with_a_grammar_of_a_treebank_is_measured(measured: Measured, tmp_path: Path) -> None:
    path = tmp_path / "trees.ptb"
    path.write_text("(S (NP-SBJ (DT the) (NN cat)) (VP (VBZ sleeps) (ADVP (RB here)) (. .)))\n" * 20)
    report = measured("--only", "trees", "--treebank", str(path))
    figures = report["sections"]["trees"]
    assert figures["trees"] == 20
    assert figures["parsing"]["fragments"] > 0
    # No sentence is long enough to be parsed.
    assert figures["parsing"]["sentences"] == 0


def test_ingest_into_a_store_that_has_the_pairs_is_rejected(bitext: list[str], tmp_path: Path) -> None:
    named = f"sqlite:///{tmp_path}/named.db"
    corpus = Corpus(*bitext, postgres=named)
    assert measure_ingest(corpus)["postgres"]["pairs"] == 40
    with pytest.raises(UsageError, match=r"named\.db already contains these pairs"):
        measure_ingest(corpus)
