"""Exports of tree grammars, and the command that shows fragments."""

import json
import re
from pathlib import Path

import pytest
from tests.conftest import CopyStore
from tests.daemon.conftest import Run
from tests.daemon.learning.treebanks import QUICK, TREES, put

from hierogram.daemon.exports.formats import FORMATS
from hierogram.daemon.learning.learning import learn
from hierogram.samplers.grammar.kinds import GRAMMAR_KINDS
from hierogram.samplers.grammar.settings import TREES as TREE_GRAMMAR
from hierogram.storage.store import open_store


@pytest.fixture
def url(store_url: str, copy_store: CopyStore) -> str:
    """URL of a store that has learned a small treebank with words that look like notation."""
    copy_store("notation in trees", store_url, make)
    return store_url


def make(url: str) -> None:
    with open_store(url, create=True, settings=QUICK) as store:
        put(store, [*TREES, "(S (NP (SYM |)) (VP (VBD [X,1]) (NP \\\\back [NN] #1)))"])
        learn(store, sweeps=6)


def uses(hierogram: Run, url: str) -> dict[str, int]:
    found = hierogram("--store", url, "export", "-f", "jsonl", "-o", "all.jsonl")
    assert found.code == 0, found.err
    rules = [json.loads(line) for line in Path("all.jsonl").read_text().splitlines()]
    assert all(set(rule) >= {"source", "target", "count", "p_target_given_source"} for rule in rules)
    assert not any(name.startswith("lex") for rule in rules for name in rule)
    return {rule["target"]: rule["count"] for rule in rules}


@pytest.mark.database("sqlite")
def test_default_export_of_trees_contains_fragments(url: str, hierogram: Run) -> None:
    ran = hierogram("--store", url, "export")
    assert (ran.code, ran.out.split(": ")[0]) == (0, "grammar.fragments.zst"), ran.err
    assert Path("grammar.fragments.zst").read_bytes().startswith(b"\x28\xb5\x2f\xfd")


@pytest.mark.database("sqlite")
def test_fragments_are_exported_with_counts_and_probabilities(url: str, hierogram: Run) -> None:
    counts = uses(hierogram, url)
    assert hierogram("--store", url, "export", "-f", "fragments", "-o", "g.txt").code == 0
    of_label: dict[str, float] = {}
    for line in Path("g.txt").read_text().splitlines():
        fragment, count, probability = line.split(" ||| ")
        assert float(count) == pytest.approx(counts.pop(fragment), rel=1e-3)
        label = fragment[1:].split(" ")[0]
        of_label[label] = of_label.get(label, 0.0) + float(probability)
    assert not counts
    assert list(of_label.values()) == pytest.approx([1.0] * len(of_label), abs=1e-4)


@pytest.mark.database("sqlite")
def test_a_context_free_grammar_is_exported_as_rules(url: str, hierogram: Run) -> None:
    assert hierogram("--store", url, "export", "-f", "pcfg", "-o", "g.txt").code == 0
    lines = Path("g.txt").read_text().splitlines()
    assert lines
    for line in lines:
        head, body, values, fragment = line.split(" ||| ")
        assert head == f"[{fragment[1:].split(' ')[0]}]"
        below = re.findall(r"\(([^ ()]+)\)| ([^ ()]+)", fragment)
        assert body.split(" ") == [
            f"[{label}]" if label else ("\\" + word if word[0] in "[\\" else word) for label, word in below
        ]
        assert len(values.split(" ")) == 2


@pytest.mark.database("sqlite")
def test_bilingual_formats_are_refused_for_tree_grammars(url: str, hierogram: Run) -> None:
    refused = hierogram("--store", url, "export", "-o", "g.txt", "-f", "cdec")
    assert refused.code == 3
    assert "fragments, pcfg" in refused.err


@pytest.mark.database("sqlite")
def test_tree_formats_need_a_tree_grammar(learned_url: str, hierogram: Run) -> None:
    assert hierogram("--store", learned_url, "export", "-f", "fragments", "-o", "g.txt").code == 3


@pytest.mark.database("sqlite")
def test_rules_command_shows_fragments_and_draws_trees(url: str, hierogram: Run) -> None:
    shown = hierogram("--store", url, "rules", "NP")
    header, *rows = [line.split("\t") for line in shown.out.splitlines()]
    assert header == ["expected_uses", "±", "p", "root", "fragment"]
    assert all(row[3] == "NP" and row[4].startswith("(NP ") for row in rows)
    drawn = hierogram("--store", url, "rules", "NP", "--tree", "--limit", "2")
    assert drawn.code == 0
    assert drawn.out.count("use") == 2
    outline = [line for line in drawn.out.splitlines() if line.startswith("    ")]
    assert outline.count("    NP") == 2
    assert any(line.startswith("      ") for line in outline)
    found = hierogram("--store", url, "rules", "--containing", "dog", "--json")
    assert json.loads(found.out)
    assert all(" dog)" in rule["target"] for rule in json.loads(found.out))


@pytest.mark.database("sqlite")
def test_drawing_needs_a_tree_grammar(learned_url: str, hierogram: Run) -> None:
    assert hierogram("--store", learned_url, "rules", "maison", "--tree").code == 2


@pytest.mark.slow
@pytest.mark.database("sqlite")
@pytest.mark.parametrize(
    "format", sorted(name for name, format in FORMATS.items() if format.supports(GRAMMAR_KINDS[TREE_GRAMMAR]))
)
def test_exports_of_fragments_can_be_compared(url: str, hierogram: Run, format: str) -> None:
    before = uses(hierogram, url)
    assert hierogram("--store", url, "export", "-f", format, "-o", "before").code == 0
    assert hierogram("diff", "before", "before").code == 0
    with open_store(url) as store:
        put(store, ["(S (NP (SYM |||)) (VP (VBD [X,1]) (NP (NN new))))", "(S (NP a ||| b) (VP (VBD ||| ran) |||))"] * 3)
        learn(store, sweeps=2)
    after = uses(hierogram, url)
    assert hierogram("--store", url, "export", "-f", format, "-o", "after").code == 0
    ran = hierogram("diff", "before", "after", "--json", "--limit", "1000")
    assert ran.code == 1
    report = json.loads(ran.out)
    both = before.keys() & after.keys()
    assert {rule["target"]: rule["after"] for rule in report["most_added"]} == {
        fragment: count for fragment, count in after.items() if fragment not in before
    }
    assert {rule["target"]: rule["before"] for rule in report["most_removed"]} == {
        fragment: count for fragment, count in before.items() if fragment not in after
    }
    assert report["changed"] == sum(before[fragment] != after[fragment] for fragment in both)
    assert report["most_added"]
    assert all(rule["target"].startswith(f"({rule['source']} ") for rule in report["most_added"])
