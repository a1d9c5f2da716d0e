"""Exports from a store: one snapshot, complete or absent, with a correct manifest."""

import hashlib
import io
import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.daemon.conftest import LINES, QUICK
from tests.daemon.exports import parsers
from tests.daemon.exports.lexical import link_counts, weights
from tests.reference.compositions import expected_occurrences, exported_compositions
from tests.storage.building import export_rows
from tests.storage.rows import rule_rows

from hierogram.daemon.exceptions import ExportError, NothingLearnedError
from hierogram.daemon.exports.exporting import export, export_to, publish
from hierogram.daemon.exports.filters import read_sentence_index
from hierogram.daemon.exports.options import MIN_EXPECTED, ExportOptions
from hierogram.daemon.exports.publication import Manifest, Versions, manifest_path
from hierogram.daemon.exports.scratch import Scratch
from hierogram.daemon.learning.learning import learn
from hierogram.daemon.text.ingest import ingest
from hierogram.daemon.text.pair_files import PairFiles
from hierogram.samplers.grammar.rules import Rule
from hierogram.storage.options import OptionError
from hierogram.storage.store import Store, open_store

ALL = ExportOptions(max_scope=None, current_sample=True)


def count_rules(store: Store) -> dict[tuple[str, str], int]:
    return {(rule.source, rule.target): rule.count for rule in store.find_rules(limit=10_000, current_sample=True)}


def sides(path: Path) -> list[tuple[str, str]]:
    return [(line.split(" ||| ")[1], line.split(" ||| ")[2]) for line in parsers.lines(path)]


@pytest.mark.parametrize("drawn", [False, True])
def test_an_export_contains_the_rules_of_the_store(learned: Store, tmp_path: Path, drawn: bool) -> None:
    path = tmp_path / "g.cdec.gz"
    manifest = export(learned, path, replace(ALL, current_sample=drawn, posterior_mean=not drawn))
    stored = {(rule.source, rule.target): rule for rule in learned.find_rules(limit=10_000, current_sample=drawn)}
    assert sides(path) == sorted(stored, key=lambda rule: (rule[0].encode(), rule[1].encode()))
    assert manifest.rules == len(stored)
    for line in parsers.lines(path):
        rule = stored[line.split(" ||| ")[1], line.split(" ||| ")[2]]
        values = parsers.cdec(line).values
        assert values["p_target_given_source"] == pytest.approx(rule.p_target_given_source, rel=1e-4)
        assert values["p_source_given_target"] == pytest.approx(rule.p_source_given_target, rel=1e-4)
        assert values["count"] == pytest.approx(rule.count if drawn else rule.expected_uses, rel=1e-4)


@pytest.mark.database("sqlite")
@pytest.mark.parametrize("drawn", [False, True])
def test_every_link_of_the_pairs_is_inside_one_rule(learned: Store, tmp_path: Path, drawn: bool) -> None:
    path = tmp_path / "g.jsonl"
    export(learned, path, replace(ALL, format="jsonl", current_sample=drawn, posterior_mean=not drawn))
    inside = 0.0
    for line in parsers.lines(path):
        row = json.loads(line)
        source, target = row["source"].split(), row["target"].split()
        links = parsers.links(row["alignment"])
        assert not any(source[i].startswith("[X,") or target[j].startswith("[X,") for i, j in links)
        inside += row["count"] * len(links)
    # No rule of these pairs has two alignments, so the most frequent alignment covers all uses.
    links_of_pairs = sum(len(line.split(" ||| ")[2].split()) for line in LINES)
    if drawn:
        assert inside == pytest.approx(links_of_pairs)
    else:
        # Small uses are rounded at random.
        assert inside == pytest.approx(links_of_pairs, rel=0.15)


def test_lexical_weights_follow_the_definition(learned: Store, tmp_path: Path) -> None:
    path = tmp_path / "g.jsonl"
    export(learned, path, replace(ALL, format="jsonl"))
    counts = link_counts(
        (source.split(), target.split(), parsers.links(links))
        for source, target, links in (line.split(" ||| ") for line in LINES)
    )
    checked = 0
    for line in parsers.lines(path):
        row = json.loads(line)
        rule = Rule.parse(f"{row['source']} ||| {row['target']}")
        to_target, to_source = weights(counts, rule.source, rule.target, parsers.links(row["alignment"]))
        for wanted, found in (
            (to_target, row["lex_target_given_source"]),
            (to_source, row["lex_source_given_target"]),
        ):
            if wanted:
                assert found == pytest.approx(float(wanted), rel=1e-6)
                checked += 1
            else:
                assert 0 < found < 1e-5
    assert checked


@pytest.mark.database("sqlite")
@pytest.mark.parametrize("least", [MIN_EXPECTED, 50.0, 1e6])
def test_default_counts_are_translation_weights(learned: Store, tmp_path: Path, least: float) -> None:
    path = tmp_path / "g.jsonl"
    chosen = {} if least == MIN_EXPECTED else {"min_expected": least}
    manifest = export(learned, path, ExportOptions(max_scope=None, **chosen))
    options = manifest.options
    assert (options["posterior_mean"], options["current_sample"], options["smoothing"]) == (False, False, 0.7)
    rows = {(row["source"], row["target"]): row for row in map(json.loads, parsers.lines(path))}
    with learned.snapshot() as snapshot:
        stored = {(rule.source, rule.target): rule for rule in rule_rows(snapshot)}
    composed = exported_compositions(LINES, least)
    sentences = [line.split(" ||| ")[0].split() for line in LINES]
    usual = {
        sides for sides in stored if expected_occurrences(Rule.parse(" ||| ".join(sides)).source, sentences) >= least
    }
    weights_of = {
        sides: rule.expected_uses + rule.minimal_uses / 8
        for sides, rule in stored.items()
        if rule.expected_uses >= 2 or rule.minimal_uses or sides in usual or sides in composed
    }
    unasked = {sides for sides, rule in stored.items() if rule.expected_uses} - set(weights_of)
    assert bool(unasked) == (least > 1)
    for key, uses in composed.items():
        weights_of[key] = weights_of.get(key, 0) + uses / 4
    assert {sides: row["count"] for sides, row in rows.items()} == {key: own for key, own in weights_of.items() if own}
    assert {row["minimal"] for row in rows.values()} == {0, 1}
    minimal = {sides for sides, rule in stored.items() if rule.minimal_uses}
    assert {sides for sides, row in rows.items() if row["minimal"]} == minimal
    expected = {sides for sides, rule in stored.items() if rule.expected_uses} - unasked
    assert set(rows) - expected
    # Some rules are only compositions; they also have links and a shape.
    new = {sides: row for sides, row in rows.items() if sides in set(composed) - expected - minimal}
    assert len(new) > 1
    for (source, target), row in new.items():
        rule = Rule.parse(f"{source} ||| {target}")
        shape = rule.scope, rule.nonterminals, rule.source_terminals
        assert (row["scope"], row["nonterminals"], row["source_words"]) == shape
        assert row["alignment"]
    # Rules that occur only in minimal derivations also have links.
    alone = [row for sides, row in rows.items() if sides in minimal - expected - set(composed)]
    pairs = [row["alignment"] for row in alone if row["source_words"] == row["target_words"] == 1 + row["nonterminals"]]
    assert pairs
    assert set(pairs) == {"0-0"}
    shares: dict[str, float] = {}
    for (source, _), row in rows.items():
        shares[source] = shares.get(source, 0.0) + row["p_target_given_source"]
    assert all(0 < share < 1 for share in shares.values())


def test_posterior_means_and_the_current_sample_cannot_be_combined() -> None:
    with pytest.raises(OptionError, match="cannot be combined"):
        ExportOptions(posterior_mean=True, current_sample=True)


@pytest.mark.slow
def test_compositions_are_the_same_if_pairs_are_read_in_parts(
    learned: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = ExportOptions(min_expected=50.0)
    export(learned, tmp_path / "together.jsonl", options)
    monkeypatch.setattr("hierogram.daemon.exports.loading._PAIRS_PER_READ", 1)
    export(learned, tmp_path / "apart.jsonl", options)
    # Even if all n-grams share one slot of the table of seen n-grams, none is discarded too early.
    monkeypatch.setattr("hierogram.daemon.exports.loading._BUCKETS", 1)
    export(learned, tmp_path / "crowded.jsonl", options)
    together, apart, crowded = ((tmp_path / f"{name}.jsonl").read_text() for name in ("together", "apart", "crowded"))
    assert together == apart == crowded


def test_counts_are_posterior_means_on_request(learned: Store, tmp_path: Path) -> None:
    path = tmp_path / "g"
    manifest = export(learned, path, ExportOptions(max_scope=None, posterior_mean=True))
    assert manifest.options["smoothing"] == 0
    counts = [parsers.cdec(line).values["count"] for line in parsers.lines(path)]
    assert sum(counts) == pytest.approx(learned.status().expected_tokens, rel=1e-4)
    assert any(round(count, 3) % 1 for count in counts)
    with learned.snapshot() as snapshot:
        rules = list(rule_rows(snapshot))
    variance = sum(rule.expected_uses_variance for rule in rules)
    assert manifest.variance_per_use == pytest.approx(variance / sum(rule.expected_uses for rule in rules))


@pytest.mark.slow
def test_export_of_a_corpus_counts_only_its_uses(learned: Store, tmp_path: Path) -> None:
    before = count_rules(learned)
    (tmp_path / "more").write_text(
        "une porte ||| a door ||| 0-0 1-1\nla porte verte ||| the green door ||| 0-0 1-2 2-1\n"
    )
    with PairFiles([str(tmp_path / "more")], format="pipes") as source:
        ingest(learned, source, corpus="more")
    learn(learned, sweeps=2)
    whole = count_rules(learned)
    assert whole != before
    parts: list[dict[tuple[str, str], float]] = []
    for corpus in sorted(learned.status().corpora):
        path = tmp_path / corpus
        export(learned, path, replace(ALL, corpus=corpus))
        parts.append(
            dict(zip(sides(path), (parsers.cdec(line).values["count"] for line in parsers.lines(path)), strict=True))
        )
    assert all(parts)
    summed = {rule: round(sum(part.get(rule, 0) for part in parts)) for rule in set().union(*parts)}
    assert summed == whole
    minimal = 0
    for corpus in sorted(learned.status().corpora):
        path = tmp_path / f"{corpus}.jsonl"
        export(learned, path, ExportOptions(max_scope=None, corpus=corpus, features=("count", "minimal")))
        minimal += sum(row["minimal"] for row in map(json.loads, parsers.lines(path)))
    with learned.snapshot() as snapshot:
        used = sum(rule.minimal_uses > 0 for rule in rule_rows(snapshot))
    assert used < minimal <= len(parts) * used
    with pytest.raises(ExportError, match="corpus 'other' not found; the store has: "):
        export(learned, tmp_path / "g", replace(ALL, corpus="other"))


@pytest.mark.database("sqlite")
def test_manifest_and_export_record_match_the_written_files(learned: Store, tmp_path: Path) -> None:
    path = tmp_path / "g.gz"
    position = learned.position()
    manifest = export(learned, path, ExportOptions(min_count=2, format="moses", current_sample=True))
    written = json.loads(manifest_path(path).read_text())
    assert set(written) == set(Manifest.__dataclass_fields__)
    assert json.loads(manifest.text()) == written
    for name, file in ((written["file"], written), *((other["name"], other) for other in written["extra_files"])):
        content = (tmp_path / name).read_bytes()
        assert (file["bytes"], file["sha256"]) == (len(content), hashlib.sha256(content).hexdigest())
    assert [other["name"] for other in written["extra_files"]] == ["g.glue.gz", "g.ini"]
    assert written["rules"] == len(parsers.lines(path))
    assert written["options"]["min_count"] == 2
    assert (written["model"], written["seed"], written["format"]) == ("pitman-yor", 1, "moses")
    assert written["settings"]["sweeps_per_level"] == 2
    assert [left["filter"] for left in written["filters"]] == ["count ≥ 2", "scope ≤ 2"]
    assert written["filters"][0]["before"] == learned.status().rules_in_use
    assert written["filters"][1]["after"] == written["rules"]
    # Recording the start of the export is the one transaction in between.
    assert written["position"] == position + 1
    [recorded] = export_rows(learned)
    assert (recorded.state, recorded.rules, recorded.sha256) == ("done", manifest.rules, manifest.sha256)
    assert recorded.path == str(path)
    assert json.loads(recorded.manifest or "") == written


@pytest.mark.database("sqlite")
@pytest.mark.parametrize("name", ["g.jsonl.zst", "g.gz", "g.txt"])
def test_exporting_a_grammar_twice_gives_the_same_bytes(learned: Store, tmp_path: Path, name: str) -> None:
    for folder in ("1", "2"):
        (tmp_path / folder).mkdir()
    first = export(learned, tmp_path / "1" / name, ALL)
    assert export(learned, tmp_path / "2" / name, ALL).sha256 == first.sha256
    magic = {"g.jsonl.zst": b"\x28\xb5", "g.gz": b"\x1f\x8b"}
    assert (tmp_path / "1" / name).read_bytes()[:2] == magic.get(name, b"[X")
    assert len(parsers.lines(tmp_path / "1" / name)) == first.rules


def test_an_export_shows_the_state_at_its_start(
    learned: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = count_rules(learned)
    load = Scratch.load

    def learn_during_the_export(self: Scratch, *arguments: Any) -> None:
        learn(learned, sweeps=4)
        load(self, *arguments)

    monkeypatch.setattr(Scratch, "load", learn_during_the_export)
    export(learned, tmp_path / "g", ALL)
    found = {
        rule: round(parsers.cdec(line).values["count"])
        for rule, line in zip(sides(tmp_path / "g"), parsers.lines(tmp_path / "g"), strict=True)
    }
    assert found == before
    assert count_rules(learned) != before


def test_failed_export_keeps_the_previous_file_and_is_recorded(
    learned: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "folder" / "g.gz"
    path.parent.mkdir()
    path.write_bytes(b"the export of yesterday")

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("hierogram.daemon.files.CompressedFile.write", fail)
    with pytest.raises(ExportError, match=r"g\.gz: cannot be written: No space left on device"):
        export(learned, path)
    assert [file.name for file in path.parent.iterdir()] == ["g.gz"]
    assert path.read_bytes() == b"the export of yesterday"
    [recorded] = export_rows(learned)
    assert (recorded.state, recorded.rules) == ("failed", None)
    assert "No space left" in (recorded.error or "")


@pytest.mark.database("sqlite")
def test_export_to_a_missing_folder_is_refused(learned: Store, tmp_path: Path) -> None:
    with pytest.raises(ExportError, match=r"the folder .* does not exist"):
        export(learned, tmp_path / "nowhere" / "g.gz")
    assert export_rows(learned) == []


@pytest.mark.slow
@pytest.mark.database("sqlite")
def test_publish_links_latest_and_deletes_old_versions(learned: Store, tmp_path: Path) -> None:
    folder = tmp_path / "grammars"
    first = publish(learned, Versions(folder, "news", 2), ExportOptions(format="moses"))
    assert (folder / "latest").resolve() == first.folder
    files = {"grammar.moses.gz", "grammar.moses.ini", "glue.moses.gz", "manifest.json"}
    assert {file.name for file in first.folder.iterdir()} == files
    configured = (first.folder / "grammar.moses.ini").read_text()
    assert " path=grammar.moses.gz " in configured
    assert " path=glue.moses.gz " in configured
    more = [publish(learned, Versions(folder, "news", 2), ExportOptions(format="moses")) for _ in range(3)]
    assert len({made.folder for made in more}) == 3
    assert (folder / "latest").resolve() == more[-1].folder
    assert more[-1].pruned == [more[0].folder]
    shown = {path.name for path in folder.iterdir() if not path.name.startswith(".")}
    assert shown == {more[1].folder.name, more[2].folder.name, "latest"}
    assert {made.manifest.sha256 for made in more} == {first.manifest.sha256}


@pytest.mark.database("sqlite")
@pytest.mark.parametrize("counts", [{}, {"posterior_mean": True, "smoothing": 0.5}, {"current_sample": True}])
def test_export_for_a_test_set_contains_the_matching_lines(
    learned: Store, tmp_path: Path, counts: dict[str, Any]
) -> None:
    test_set = tmp_path / "test.fr"
    test_set.write_text("la maison verte\nxxx\nelle ne voit pas\n")
    index = read_sentence_index(test_set)
    for hiero in (False, True):
        options = ExportOptions(max_scope=None, hiero=hiero, **counts)
        before = export(learned, tmp_path / "all", options).filters
        manifest = export(learned, tmp_path / "some", replace(options, filter_for=test_set))
        every_line = parsers.lines(tmp_path / "all")
        lines = [line for line in every_line if next(index.matches(line.split(" ||| ")[1]), None) is not None]
        assert parsers.lines(tmp_path / "some") == lines
        assert 0 < manifest.rules == len(lines) < len(parsers.lines(tmp_path / "all"))
        first, *others = manifest.filters
        assert [later.filter for later in others] == [earlier.filter for earlier in before]
        if before:
            assert first.before == before[0].before
            assert first.after == others[0].before


@pytest.mark.database("sqlite")
def test_path_of_a_test_set_may_be_a_string(learned: Store, tmp_path: Path) -> None:
    (tmp_path / "test.fr").write_text("la maison verte\n")
    options = ExportOptions(filter_for=str(tmp_path / "test.fr"))
    assert export(learned, tmp_path / "g.gz", options).filters[0].filter == "matches a sentence of test.fr"


def test_a_store_that_has_not_learned_is_not_exported(store: Store, corpus: Path, tmp_path: Path) -> None:
    with PairFiles([str(corpus)]) as source:
        ingest(store, source)
    message = "nothing learned yet: run `hierogram learn`"
    with pytest.raises(NothingLearnedError, match=message):
        export(store, tmp_path / "g.gz")
    with pytest.raises(NothingLearnedError, match=message):
        publish(store, Versions(tmp_path / "versions", "news"))
    assert not (tmp_path / "g.gz").exists()
    assert [path.name for path in (tmp_path / "versions").iterdir()] == [".news.lock"]
    assert [(row.state, message in (row.error or "")) for row in export_rows(store)] == [("failed", True)] * 2


@pytest.mark.database("sqlite")
def test_export_in_a_format_for_trees_is_recorded_as_failed(learned: Store, tmp_path: Path) -> None:
    with pytest.raises(ExportError, match=r"cannot be exported as fragments: use cdec, .*, shortlist, .*, ttable$"):
        publish(learned, Versions(tmp_path / "versions", "news"), ExportOptions(format="fragments"), job="news")
    [row] = export_rows(learned, "news")
    assert (row.state, row.format) == ("failed", "fragments")
    assert "cannot be exported as fragments" in (row.error or "")


@pytest.mark.database("sqlite")
def test_export_without_remaining_rules_is_an_empty_file(learned: Store, tmp_path: Path) -> None:
    assert export(learned, tmp_path / "g.gz", ExportOptions(min_count=1e6)).rules == 0
    assert parsers.lines(tmp_path / "g.gz") == []


@pytest.mark.database("sqlite")
def test_export_to_a_stream_equals_export_to_a_file(learned: Store, tmp_path: Path) -> None:
    stream = io.BytesIO()
    manifest = export_to(learned, stream, ALL)
    export(learned, tmp_path / "g", ALL)
    assert stream.getvalue() == (tmp_path / "g").read_bytes()
    assert manifest.sha256 == hashlib.sha256(stream.getvalue()).hexdigest()
    recorded = export_rows(learned)[1]
    assert (recorded.name, recorded.path, recorded.state) == ("-", "-", "done")
    assert json.loads(recorded.manifest or "") == json.loads(manifest.text())


@pytest.mark.slow
def test_exports_from_both_databases_have_the_same_bytes(
    corpus: Path, tmp_path: Path, make_database: Callable[[], str]
) -> None:
    digests = set()
    for url in (f"sqlite:///{tmp_path}/s.db", make_database()):
        with open_store(url, create=True, settings=QUICK) as opened, PairFiles([str(corpus)]) as source:
            ingest(opened, source)
            learn(opened, sweeps=4)
            digests.add(export(opened, tmp_path / "g", ALL).sha256)
    assert len(digests) == 1
