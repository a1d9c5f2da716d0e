"""Comparison of two exports, and the command `diff`."""

import json
from pathlib import Path

import pytest
from tests.daemon.conftest import LINES, Run, make_store
from tests.storage.building import Delta, commit, query

from hierogram.daemon.cli.exports import DATASETTE, PACKED
from hierogram.daemon.exceptions import ExportError, UsageError
from hierogram.daemon.exports.difference import diff
from hierogram.daemon.exports.exporting import export
from hierogram.daemon.exports.formats import FORMATS
from hierogram.daemon.exports.options import ExportOptions
from hierogram.samplers.grammar.kinds import GRAMMAR_KINDS
from hierogram.samplers.grammar.settings import SYNCHRONOUS
from hierogram.storage.store import Store

pytestmark = pytest.mark.database("sqlite")


def delta(source: str, target: str, count: int, expected: float = 0) -> Delta:
    key = hash((source, target)) & 0x7FFFFFFF
    return Delta(key, 1, source, target, 2, 0, source.count("[X,"), 1, 1, True, count, expected)


@pytest.mark.parametrize(
    "format",
    [name for name, format in FORMATS.items() if format.supports(GRAMMAR_KINDS[SYNCHRONOUS]) and not format.word_list],
)
def test_diff_finds_rules_added_removed_and_changed(store: Store, tmp_path: Path, format: str) -> None:
    options = ExportOptions(current_sample=True, format=format)
    commit(store, [], [delta("a", "x", 3), delta("b", "x", 2), delta("c", "z", 5), delta("d", "z", 1)])
    export(store, tmp_path / "a", options)
    commit(store, [], [delta("a", "x", 4), delta("b", "x", -2), delta("d", "z", 1), delta("e", "z", 8)])
    export(store, tmp_path / "b", options)
    found = diff(tmp_path / "a", tmp_path / "b", 10)
    assert (found.same, found.changed, found.added, found.removed) == (1, 2, 1, 1)
    [added], [removed], changed = found.most_added, found.most_removed, found.most_changed
    assert (added.source, added.before, round(added.after or 0, 3)) == ("e", None, 8)
    assert (removed.source, round(removed.before or 0, 3), removed.after) == ("b", 2, None)
    assert [(rule.source, round(rule.before or 0, 3), round(rule.after or 0, 3)) for rule in changed] == [
        ("a", 3, 7),
        ("d", 1, 2),
    ]
    assert diff(tmp_path / "a", tmp_path / "a", 1).same == 4
    assert len(diff(tmp_path / "a", tmp_path / "b", 1).most_changed) == 1
    with pytest.raises(UsageError, match="limit: must be >= 0, got -1"):
        diff(tmp_path / "a", tmp_path / "b", -1)


@pytest.mark.slow
@pytest.mark.parametrize("format", ["cdec", "moses", "jsonl", "tsv", "parquet"])
def test_links_of_nonterminals_distinguish_rules(store: Store, tmp_path: Path, format: str) -> None:
    """Moses writes nonterminals without numbers, so only the links distinguish such rules."""
    straight, crossed = ("a [X,1] [X,2]", "x [X,1] [X,2]"), ("a [X,1] [X,2]", "x [X,2] [X,1]")
    options = ExportOptions(current_sample=True, format=format, max_scope=None)
    commit(store, [], [delta(*straight, 3), delta(*crossed, 5)])
    export(store, tmp_path / "a", options)
    commit(store, [], [delta(*crossed, 2)])
    export(store, tmp_path / "b", options)
    found = diff(tmp_path / "a", tmp_path / "a", 10)
    assert (found.same, found.changed, found.added, found.removed) == (2, 0, 0, 0)
    found = diff(tmp_path / "a", tmp_path / "b", 10)
    assert (found.same, found.changed, found.added, found.removed) == (1, 1, 0, 0)
    assert (found.most_changed[0].source, found.most_changed[0].target) == crossed


def test_diff_merges_rules_with_equal_text_in_a_format(store: Store, tmp_path: Path) -> None:
    commit(store, [], [delta("|", "x", 3), delta("&#124;", "x", 5)])
    export(store, tmp_path / "a.moses", ExportOptions(current_sample=True, format="moses"))
    found = diff(tmp_path / "a.moses", tmp_path / "a.moses", 10)
    assert (found.same, found.changed, found.added, found.removed) == (1, 0, 0, 0)


def test_diff_rejects_different_formats_and_invalid_files(store: Store, tmp_path: Path) -> None:
    commit(store, [], [delta("a", "x", 3)])
    export(store, tmp_path / "a", ExportOptions(current_sample=True, format="cdec"))
    export(store, tmp_path / "b", ExportOptions(current_sample=True, format="tsv"))
    with pytest.raises(ExportError, match="exports must have the same format"):
        diff(tmp_path / "a", tmp_path / "b", 1)
    (tmp_path / "a").write_text("[X] ||| a\n")
    with pytest.raises(ExportError, match="line 1: not a line of a cdec export"):
        diff(tmp_path / "a", tmp_path / "a", 1)
    with pytest.raises(ExportError, match="cannot be read as a manifest"):
        diff(tmp_path / "none", tmp_path / "a", 1)


def test_diff_rejects_manifests_of_other_versions(store: Store, tmp_path: Path) -> None:
    commit(store, [], [delta("a", "x", 3)])
    export(store, tmp_path / "a", ExportOptions(format="cdec"))
    manifest = json.loads((tmp_path / "a.json").read_text())
    for change, reason in (
        ({"features": ["unheard_of"]}, "unknown or missing entry 'unheard_of'"),
        ({"format": "unheard_of"}, "unknown format 'unheard_of'"),
    ):
        (tmp_path / "a.json").write_text(json.dumps(manifest | change))
        with pytest.raises(ExportError, match=f"cannot read its manifest: {reason}.*: export the grammar again$"):
            diff(tmp_path / "a", tmp_path / "a", 1)
    del manifest["features"]
    (tmp_path / "a.json").write_text(json.dumps(manifest))
    with pytest.raises(ExportError, match="unknown or missing entry 'features': export the grammar again"):
        diff(tmp_path / "a", tmp_path / "a", 1)


@pytest.mark.slow
def test_diff_command_compares_versions(hierogram: Run, corpus: Path) -> None:
    make_store(schedule="paper", sweeps_per_level=2, levels=3, round_sweeps=2)
    hierogram("ingest", str(corpus))
    hierogram("learn", "--sweeps", "2")
    made = json.loads(hierogram("export", "--to", "grammars", "--name", "news", "--json").out)
    assert made["path"].endswith("/grammar.cdec.gz")
    assert hierogram("diff", "grammars/latest", "grammars/latest").code == 0
    Path("more").write_text("".join(line + "\n" for line in LINES[:3]))
    hierogram("ingest", "more", "--corpus", "more")
    hierogram("learn", "--sweeps", "1")
    ran = hierogram("export", "--to", "grammars", "--name", "news", "--hiero", "--max-scope", "1")
    assert ran.code == 0
    assert "\n  scope ≤ 1: " in ran.out
    [first, _] = sorted(path.name for path in Path("grammars").iterdir() if path.name.startswith("news-"))
    result = hierogram("diff", f"grammars/{first}", "grammars/latest")
    assert result.code == 1
    assert " removed" in result.out
    # Each table has a title, because the output may be saved in a file.
    titles = ("removed, highest counts first", "before\tafter\tsource\ttarget")
    assert "\n".join(titles) in result.out
    assert json.loads(hierogram("diff", f"grammars/{first}", "grammars/latest", "--json").out)["removed"] > 0
    wrong = hierogram("export", "--format", "word")
    assert (wrong.code, wrong.err) == (
        2,
        f"hierogram: --format: must be one of {', '.join((*FORMATS, PACKED, DATASETTE))}, got 'word'\n",
    )


@pytest.mark.parametrize(
    ("errors", "significant"), [((0.11, 0.0), 1), ((0.0, 0.11), 1), ((0.11, 0.11), 0), ((0.0, 0.0), 1)]
)
def test_the_error_of_a_difference_includes_the_errors_of_both_exports(
    store: Store, store_url: str, tmp_path: Path, errors: tuple[float, float], significant: int
) -> None:
    """The difference is 5, twice its error is 4.9 with the variance of the larger count alone, and 5.6 with both."""
    options = ExportOptions(format="tsv")
    for name, more, error in (("before", 10, errors[0]), ("after", 5, errors[1])):
        commit(store, [], [delta("a", "x", 1, more)])
        query(store_url, f"UPDATE rules SET expected_uses_variance = {error} * expected_uses")
        export(store, tmp_path / name, options)
    assert diff(tmp_path / "before", tmp_path / "after", 10).significant == significant


def test_diff_assumes_up_to_a_quarter_use_of_missing_rules(store: Store, store_url: str, tmp_path: Path) -> None:
    options = ExportOptions(format="tsv")
    commit(store, [], [delta("a", "x", 1, 2)])
    query(store_url, "UPDATE rules SET expected_uses_variance = 0.01 * expected_uses")
    export(store, tmp_path / "before", options)
    commit(store, [], [delta("b", "x", 1, 0.125), delta("c", "x", 1, 0.5), delta("d", "x", 1, 0.1875)])
    query(store_url, "UPDATE rules SET expected_uses_variance = 0.01 * expected_uses")
    export(store, tmp_path / "after", options)
    found = diff(tmp_path / "before", tmp_path / "after", 10)
    # A change from 0 to 0.1875 would exceed twice its error of 0.05.
    assert (found.added, [rule.source for rule in found.most_significant]) == (3, ["c"])


def test_diff_distinguishes_significant_changes_from_noise(store: Store, store_url: str, tmp_path: Path) -> None:
    options = ExportOptions(format="tsv")
    commit(store, [], [delta(side, "x", 1, 20) for side in "abc"])
    query(store_url, "UPDATE rules SET expected_uses_variance = expected_uses / 20")
    export(store, tmp_path / "before", options)
    commit(store, [], [delta("a", "x", 0, 2), delta("b", "x", 0, 8), delta("d", "x", 1, 1)])
    query(store_url, "UPDATE rules SET expected_uses_variance = expected_uses / 20")
    export(store, tmp_path / "after", options)
    found = diff(tmp_path / "before", tmp_path / "after", 10)
    # Standard errors of the differences are 3.1 to 3.4, and 0.29 for the added rule.
    assert (found.same, found.changed, found.added) == (1, 2, 1)
    assert found.significant == 2
    assert [(rule.source, rule.after) for rule in found.most_significant] == [
        ("b", pytest.approx(28)),
        ("d", pytest.approx(1)),
    ]
    manifest = json.loads((tmp_path / "before.json").read_text())
    assert manifest["variance_per_use"] == pytest.approx(0.05)
    del manifest["variance_per_use"]
    (tmp_path / "before.json").write_text(json.dumps(manifest))
    assert diff(tmp_path / "before", tmp_path / "after", 10).significant is None
