"""Labels of trees that are divided into sub-labels: learned, verified, exported, parsed with."""

import re
from pathlib import Path

import pytest
from tests.daemon.conftest import Run
from tests.storage.building import query

from hierogram.daemon.exceptions import UsageError
from hierogram.daemon.learning.derivations import derivation_of
from hierogram.daemon.learning.drawing import draw
from hierogram.daemon.library.store import open as open_grammar
from hierogram.daemon.text.treebanks.trees import read_tree
from hierogram.samplers.grammar.settings import PCFG, UNIFORM
from hierogram.storage.exceptions import StoreError
from hierogram.storage.store import open_store
from hierogram.tools.treebanks.approximation import approximate
from hierogram.tools.treebanks.grammars import Prior, TreeGrammar, read_grammar
from hierogram.tools.treebanks.parsing import Parser
from hierogram.tools.treebanks.requests import METHODS

TREES = """\
(S (NP (N stars)) (VP (V shine)))
(S (NP (N ears)) (VP (V saw) (NP (N stars))))
(S (NP (N ears)) (VP (V saw) (NP (NP (N stars)) (PP (P with) (NP (N ears))))))
(S (NP (N ears)) (VP (VP (V saw) (NP (N stars))) (PP (P with) (NP (N ears)))))
(S (NP (NP (N ears)) (PP (P with) (NP (N stars)))) (VP (V shine)))
"""


def learn(hierogram: Run, url: str, *settings: str) -> None:
    Path("trees").write_text(TREES * 3)
    Path("text").write_text("ears saw stars with ears\nstars shine\n")
    chosen = ("--store", url)
    assert hierogram(*chosen, "init", "--kind", "trees", *settings).code == 0
    assert hierogram(*chosen, "ingest", "--trees", "trees", "--rare", "0").code == 0
    assert hierogram(*chosen, "learn", "--sweeps", "10").code == 0


@pytest.fixture
def divided(hierogram: Run, store_url: str) -> str:
    """A store whose labels are divided into four, which has learned, once on each database."""
    learn(hierogram, store_url, "--labels", "4", "--annealing", "20")
    return store_url


def labels_of(text: str) -> set[str]:
    return set(re.findall(r"\(([^ ()]+)", text))


@pytest.mark.slow
def test_a_store_is_learned_verified_exported_and_parsed_with(hierogram: Run, divided: str) -> None:
    chosen = ("--store", divided)
    ran = hierogram(*chosen, "init", "--kind", "trees", "--labels", "4", "--annealing", "20")
    assert "  labels           4\n" in ran.out
    assert '"sub_labels": 4' in hierogram(*chosen, "status", "--json").out
    assert hierogram(*chosen, "verify").code == 0
    assert hierogram(*chosen, "export", "--format", "fragments", "-o", "of.fragments").code == 0
    assert hierogram(*chosen, "export", "--format", "pcfg", "-o", "of.pcfg").code == 0
    found = labels_of(Path("of.fragments").read_text())
    assert {label.partition("~")[0] for label in found} == {"TOP", "S", "NP", "VP", "PP", "N", "V", "P"}
    assert {label.partition("~")[2] for label in found} == {"", "1", "2", "3"}
    assert not any(label.startswith("TOP~") for label in found)
    assert f"[{max(found)}]" in Path("of.pcfg").read_text()
    for method in METHODS:
        parsed = hierogram("parse", divided, "text", "--method", method)
        assert parsed.code == 0, parsed.err
        assert parsed.out.startswith("(TOP (S (NP (N ears)) (VP (V")
        of_file = hierogram("parse", "of.fragments", "text", "--method", method)
        for out in (parsed.out, of_file.out):
            # A file lacks what is rarely used, and with it one derivation or another of the first sentence.
            assert out.endswith("(TOP (S (NP (N stars)) (VP (V shine))))\n")
            assert "~" not in out


@pytest.mark.slow
def test_derivations_show_the_sub_labels_of_rules(divided: str) -> None:
    used = set(query(divided, "SELECT source, target FROM rules WHERE count > 0"))
    with open_store(divided) as store:
        settings = store.settings()
        derivations = [derivation_of(row, settings) for row in store.pairs()]
    assert {(use.source, use.target) for uses in derivations for use in uses} == used
    assert any("~" in source for source, _ in used)
    assert all(draw(uses).startswith("<svg") for uses in derivations[:4])


@pytest.mark.slow
@pytest.mark.database("sqlite")
def test_what_was_learned_in_parts_is_what_was_learned_at_once(hierogram: Run, store_url: str) -> None:
    tables = "SELECT source, target, count FROM rules WHERE count > 0 ORDER BY source, target"
    learn(hierogram, "sqlite:///once.db", "--labels", "2", "--annealing", "5")
    learn(hierogram, store_url, "--labels", "2", "--annealing", "5")
    assert hierogram("--store", "sqlite:///once.db", "learn", "--sweeps", "6").code == 0
    for _ in range(3):
        assert hierogram("--store", store_url, "learn", "--sweeps", "2").code == 0
    assert query(store_url, tables) == query("sqlite:///once.db", tables)
    everything = "SELECT label, strength, expansion_probability FROM labels ORDER BY label"
    assert query(store_url, everything) == query("sqlite:///once.db", everything)


def test_an_unseen_fragment_weighs_the_sub_labels_of_its_children() -> None:
    text = "(TOP (A~1 (B b) (B~1 c))) ||| 3\n(TOP (A)) ||| 1\n(A (B) (B)) ||| 1\n(B b) ||| 2"
    rows = [line.split(" ||| ") for line in text.splitlines()]
    grammar = TreeGrammar([(read_tree(tree, frontiers=True), float(count)) for tree, count in rows])
    # Labels with four sub-labels, two of which are in no fragment.
    names = ["TOP", *(f"{label}{end}" for label in "AB" for end in ("", "~1", "~2", "~3"))]
    for base, one, two, word in ((PCFG, 4 / 4, 4 / 4, 3 / 8), (UNIFORM, 1 / 10, 1 / 50, 1 / 10)):
        known = approximate(grammar, priors=dict.fromkeys(names, Prior(2.0, 0.25)), base=base)
        masses = known.processes.fragment_mass.tolist()
        assert masses[1] == pytest.approx(1 + 2 * 0.75 * one / 4)
        assert masses[2] == pytest.approx(1 + 2 * 0.75**2 * two / 16)
        assert masses[-1] == pytest.approx(2 * word)


def test_a_parse_sums_over_sub_labels(tmp_path: Path) -> None:
    (tmp_path / "grammar").write_text(
        "(TOP (S)) ||| 4\n(TOP (S~1)) ||| 5\n(S (A a)) ||| 1\n(S~1 (A a)) ||| 1\n(S~1 (B a)) ||| 1\n"
    )
    parser = Parser(approximate(read_grammar(str(tmp_path / "grammar")), smoothed=False), draws=0)
    found = parser.parse(["a"], 0, ("mpd", "mer"))
    # 4/9 and half of 5/9 for A, half of 5/9 for B: no derivation of A has as much as both have together.
    assert str(found.trees["mpd"]) == str(found.trees["mer"]) == "(TOP (S (A a)))"
    assert found.log_probability == pytest.approx(0.0)


@pytest.mark.database("sqlite")
@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        (("--kind", "trees", "--labels", "3"), "2, 4, 8 or 16, not into 3"),
        (("--kind", "trees", "--labels", "2", "--classes-of", "text"), "by word classes: leave it out"),
        (("--kind", "itg", "--labels", "2"), "word classes"),
    ],
)
def test_what_cannot_be_divided_is_said(
    hierogram: Run, tmp_path: Path, store_url: str, settings: tuple[str, ...], reason: str
) -> None:
    (tmp_path / "text").write_text("a b\n")
    ran = hierogram("--store", store_url, "init", *settings)
    assert (ran.code, reason in ran.err) == (2, True)


def test_a_store_stays_divided_as_it_is(store_url: str) -> None:
    with open_grammar(store_url, create=True, grammar="trees", labels=2) as made:
        assert (made.made, made.settings().sub_labels) == (True, 2)
    with open_grammar(store_url, create=True, grammar="trees", labels=2) as again:
        assert not again.made
    with pytest.raises(StoreError, match="sub_labels is 2, not 4"):
        open_grammar(store_url, create=True, grammar="trees", labels=4)
    with pytest.raises(UsageError, match="not into 6"):
        open_grammar(store_url, create=True, grammar="trees", labels=6)
