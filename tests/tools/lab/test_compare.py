"""The comparison of grammars against slow counting, and its command."""

import json
from collections.abc import Callable, Iterable
from pathlib import Path

import numpy as np
import pytest
from tests.daemon.conftest import LINES, Run, create_learned_store
from tests.reference.compositions import exported_compositions
from tests.reference.examples import RandomPair, parse_links
from tests.storage.building import query
from tests.tools.lab import definition as reference

from hierogram.daemon.exports.options import MIN_EXPECTED
from hierogram.daemon.learning.learning import learn
from hierogram.daemon.text.ingest import ingest
from hierogram.daemon.text.pair_files import PairFiles
from hierogram.samplers.grammar import rules as notation
from hierogram.storage.records.pairs import PairRow
from hierogram.storage.store import open_store
from hierogram.tools.lab.comparison.bitexts import Numbering, to_bitext
from hierogram.tools.lab.comparison.comparing import compare
from hierogram.tools.lab.comparison.extraction import ExtractionLimits, HeuristicGrammar, rule_lines

HELD_OUT = ["la maison verte", "elle ne voit pas la porte", "une maison de pierre"]


def split_pairs(lines: Iterable[str]) -> list[RandomPair]:
    return [
        (tuple(source.split()), tuple(target.split()), parse_links(links))
        for source, target, links in (line.split(" ||| ") for line in lines)
    ]


def by_scope(rules: Iterable[notation.Rule], max_scope: int) -> list[int]:
    scopes = [rule.scope for rule in rules]
    return [scopes.count(k) for k in range(max_scope + 1)]


def shares(rules: Iterable[notation.Rule], sentences: list[str]) -> list[float]:
    """Return for n = 1 to 4 the share of the sentences' n-grams that occur in a source side without gaps."""
    sides = [" ".join("\n" if isinstance(s, int) else s for s in rule.source) for rule in rules]
    runs = [f" {run.strip()} " for side in sides for run in side.split("\n")]
    covered_shares = []
    for n in range(1, 5):
        grams = [
            " ".join(words[k : k + n])
            for words in (sentence.split() for sentence in sentences)
            for k in range(len(words) - n + 1)
        ]
        covered_shares.append(sum(any(f" {gram} " in run for run in runs) for gram in grams) / len(grams))
    return covered_shares


@pytest.mark.slow
@pytest.mark.parametrize("max_scope", [1, 2])
def test_counts_and_coverage_of_the_comparison_equal_slow_counting(
    store_url: str, tmp_path: Path, max_scope: int
) -> None:
    corpus = tmp_path / "corpus.bars"
    corpus.write_text("".join(line + "\n" for line in LINES))
    create_learned_store(store_url, corpus)
    with open_store(store_url) as store:
        compared = compare(store, HELD_OUT, max_scope=max_scope)
    occurrences, _ = reference.extract(split_pairs(LINES), 10, 5)
    heuristic = {notation.Rule(rule.source, rule.target): n for rule, n in occurrences.items()}
    stored = [
        (notation.Rule.parse(f"{source} ||| {target}"), count, sampled, minimal, hiero)
        for source, target, count, sampled, minimal, hiero in query(
            store_url, "SELECT source, target, count, expected_uses, minimal_uses, hiero FROM rules"
        )
    ]
    translating = [rule for rule, _, *uses, _ in stored if any(uses)]
    admitted = [rule for rule, *_, hiero in stored if hiero]
    composed = [notation.Rule.parse(" ||| ".join(sides)) for sides in exported_compositions(LINES, MIN_EXPECTED)]
    composed = [rule for rule in composed if rule not in translating]
    expected = {
        "Hiero": list(heuristic),
        "no singletons": [rule for rule, n in heuristic.items() if n > 1 or rule.source_terminals < 2],
        "single sample": [rule for rule, count, *_ in stored if count],
        "single sample, Hiero's constraints": [rule for rule, count, *_, hiero in stored if count and hiero],
        "posterior means": [rule for rule, _, sampled, *_ in stored if sampled],
        "posterior means, Hiero's constraints": [rule for rule, _, sampled, _, hiero in stored if sampled and hiero],
        "translation grammar": [*translating, *composed],
        # The constrained grammar also has all composed rules.
        "translation grammar, Hiero's constraints": [*(rule for rule in translating if rule in admitted), *composed],
    }
    assert [row.name for row in compared.grammars] == list(expected)
    hiero_rules = sum(by_scope(expected["Hiero"], max_scope))
    for row in compared.grammars:
        rules = expected[row.name]
        assert row.rules_by_scope == by_scope(rules, max_scope), row.name
        assert row.rules == sum(row.rules_by_scope)
        assert row.ratio == row.rules / hiero_rules
        assert row.covered == pytest.approx(shares([r for r in rules if r.scope <= max_scope], HELD_OUT)), row.name
    assert len({row.rules for row in compared.grammars}) > 3
    assert (compared.pairs, compared.held_out) == (len(LINES), len(HELD_OUT))
    assert compared.source_words == sum(len(line.split(" ||| ")[0].split()) for line in LINES)


def extract_heuristically(threads: int, capacity: int) -> str:
    """Return the rule lines of the heuristic grammar of `LINES`."""
    rows = [PairRow(k, *line.split(" ||| "), "settled", 1, 1, None, None) for k, line in enumerate(LINES)]
    source, target = (
        Numbering(sorted({word for row in rows for word in (row.source, row.target)[k].split()})) for k in (0, 1)
    )
    bitexts = [to_bitext(rows[k : k + 2], source, target) for k in range(0, len(rows), 2)]
    with HeuristicGrammar(ExtractionLimits(), threads, capacity) as grammar:
        grammar.add(bitexts)
        rules = np.concatenate(list(grammar.blocks()))
    return rule_lines(rules, grammar.shape, source.spellings, target.spellings).decode()


@pytest.mark.parametrize("threads", [1, 3])
def test_the_heuristic_grammar_does_not_depend_on_threads_or_buffer_sizes(threads: int) -> None:
    assert extract_heuristically(threads, 60) == extract_heuristically(1, 1 << 16)


def test_heuristic_rules_are_sorted_and_have_the_masses_of_the_reference() -> None:
    lines = extract_heuristically(1, 1 << 16).splitlines()
    # Word numbers are in byte order, and nonterminals come first.
    parts = [[side.split(" ") for side in line.replace("[X,", "\x01").split(" ||| ")] for line in lines]
    assert parts == sorted(parts)
    occurrences, masses = reference.extract(split_pairs(LINES), 10, 5)
    assert len(lines) == len(occurrences)
    for line in lines:
        side, other, mass = line.split(" ||| ")
        rule = reference.Rule(notation.parse_side(side), notation.parse_side(other))
        assert float(mass) == pytest.approx(float(masses[rule]), abs=1e-4)


Compare = Callable[..., tuple[str, str]]


@pytest.fixture
def run(lab: Run) -> Compare:
    """Function that runs `compare`, which must end with the given code."""

    def compare_by(*arguments: str, code: int = 0) -> tuple[str, str]:
        done = lab("compare", *arguments)
        assert done.code == code, done.err
        return done.out, done.err

    return compare_by


@pytest.mark.slow
def test_the_command_learns_a_bitext_with_held_out_pairs(run: Compare, tmp_path: Path) -> None:
    corpus, kept = tmp_path / "corpus.bars", tmp_path / "kept.db"
    corpus.write_text("".join(line + "\n" for line in LINES * 3))
    table = json.loads(run(str(corpus), "--sweeps", "1", "--keep", str(kept), "--json")[0])
    # Every tenth line is held out.
    assert (table["pairs"], table["held_out"]) == (len(LINES) * 3 - len(LINES) * 3 // 10, len(LINES) * 3 // 10)
    assert table["grammars"][0]["covered"][0] > 0
    lines = [line.split("\t") for line in run("--store", str(kept))[0].splitlines()]
    assert lines[0] == ["grammar", "scope 0", "scope 1", "scope 2", "rules", "ratio to Hiero"]
    repeated = [(line[0], int(line[4].replace(",", ""))) for line in lines[1:9]]
    assert repeated == [(row["name"], row["rules"]) for row in table["grammars"]]


def test_the_command_refuses_contradictory_options(run: Compare, tmp_path: Path) -> None:
    kept = tmp_path / "kept.db"
    assert "require FILES" in run("--keep", str(kept), code=2)[1]
    with open_store(f"sqlite:///{kept}", create=True):
        pass
    assert "already exists" in run("x", "--keep", str(kept), code=2)[1]
    assert "no pair has a derivation yet: run `hierogram --store" in run("--store", str(kept), code=2)[1]


def test_a_bitext_without_links_is_aligned_first(run: Compare, tmp_path: Path) -> None:
    sides = [tmp_path / "c.fr", tmp_path / "c.en"]
    for k, path in enumerate(sides):
        path.write_text("".join(line.split(" ||| ")[k] + "\n" for line in LINES * 3))
    table, errors = run(*map(str, sides), "--sweeps", "1", "--json")
    figures = json.loads(table)
    # Every tenth line is held out.
    learned = len(LINES) * 3 - len(LINES) * 3 // 10
    assert f"{learned} pairs of the bitext without links: aligned with bhmm-f" in errors
    assert figures["pairs"] == learned
    assert all(row["rules"] > 10 for row in figures["grammars"])


@pytest.mark.database("sqlite")
def test_a_store_is_compared_by_its_learned_rules(run: Compare, store_url: str, tmp_path: Path) -> None:
    corpus = tmp_path / "corpus.bars"
    corpus.write_text("".join(line.rpartition(" ||| ")[0] + "\n" for line in LINES))
    with open_store(store_url, create=True) as opened, PairFiles([str(corpus)]) as source:
        ingest(opened, source)
    output, errors = run("--store", store_url, code=3)
    assert output == ""
    assert f"the pairs have no alignment yet: run `hierogram --store {opened.url} learn`" in errors
    corpus.write_text("".join(line + "\n" for line in LINES * 2))
    with open_store(store_url) as opened, PairFiles([str(corpus)]) as source:
        ingest(opened, source)
        learn(opened, sweeps=1)
    output, errors = run("--store", store_url, "--json")
    assert json.loads(output)["pairs"] == 2 * len(LINES)
    assert f"omitted {len(LINES)} pairs without an alignment" in errors
