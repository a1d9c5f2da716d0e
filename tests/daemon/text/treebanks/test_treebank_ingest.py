"""Ingest of treebanks, and parsing with the learned grammar."""

import json
import re
from pathlib import Path

import pytest
from tests.conftest import CopyStore
from tests.daemon.conftest import Run
from tests.daemon.text.treebanks.ingesting import ingest_trees
from tests.storage.rows import rule_rows

from hierogram.daemon.exceptions import UsageError, WrongKindError
from hierogram.daemon.text.treebanks.ingest import read_treebank_settings
from hierogram.daemon.text.treebanks.reading import TreebankFile
from hierogram.daemon.text.treebanks.transformations import Transformations
from hierogram.daemon.text.treebanks.trees import Tree, read_tree
from hierogram.samplers.grammar.settings import TREES
from hierogram.storage.records.settings import Settings
from hierogram.storage.store import open_store
from hierogram.tools.treebanks.approximation import approximate
from hierogram.tools.treebanks.grammars import TreeGrammar, binarize, load_grammar
from hierogram.tools.treebanks.parsing import Parser

TREEBANK = """\
( (S (NP-SBJ-1 (DT the) (NN dog)) (VP (VBD saw) (NP (DT the) (JJ big) (NN cat))) (. .)))
(S (NP-SBJ (DT the) (NN cat)) (VP (VBD saw)
     (NP (DT the) (NN dog)) (NP (-NONE- *))))
(S (NP (DT the) (NN dog))
(S (NP (-NONE- *)))
(S (NP (PRP She)) (VP (VBD saw) (NP (NN |||))))
(S (NP (PRP She)) (VP (VBD saw) (NP (NN |||))))
"""


@pytest.fixture
def treebank(tmp_path: Path) -> str:
    path = tmp_path / "trees.mrg"
    path.write_text(TREEBANK)
    return str(path)


def test_trees_are_transformed_and_stored(store_url: str, treebank: str) -> None:
    with open_store(store_url, create=True, settings=Settings(grammar=TREES)) as store:
        done = ingest_trees(store, TreebankFile(treebank))
        assert (done.lines, done.totals.accepted, done.totals.rejected) == (6, 4, 2)
        assert [(line.line, line.reason) for line in done.first_rejected] == [(4, "malformed-tree"), (5, "empty-side")]
        rows = store.pairs()
        assert rows[0].source == "the dog saw the UNK-LC cat UNK"
        assert rows[0].target == (
            "(TOP (S (NP (DT the) (NN dog)) (@S (VP (VBD saw) (NP (DT the) (@NP (JJ UNK-LC) (NN cat)))) (. UNK))))"
        )
        assert rows[2].target == "(TOP (S (NP (PRP She)) (VP (VBD saw) (NP (NN |||)))))"
        assert rows[2].source == rows[3].source
        known = {"the", "dog", "cat", "saw", "She", "|||"}
        assert read_treebank_settings(store) == (Transformations(), known)
        again = ingest_trees(store, TreebankFile(treebank))
        assert (again.totals.accepted, again.totals.duplicates) == (0, 4)


def test_the_first_trees_determine_words_and_transformations(store_url: str, treebank: str, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("(S (NP (NNS genes)) (VP (VBP saw)))\n" * 3)
    with open_store(store_url, create=True, settings=Settings(grammar=TREES)) as store:
        ingest_trees(store, TreebankFile(treebank), Transformations(rare=0))
        assert store.pairs()[0].target.startswith("(TOP (S (NP (DT the) (NN dog)) (@S (VP (VBD saw) (NP (DT the)")
        ingest_trees(store, TreebankFile(str(other)))
        assert store.pairs()[-1].target == "(TOP (S (NP (NNS UNK-LC-s)) (VP (VBP saw))))"
        other_options = "expected the transformations rare=0 of the store's first trees, got rare=1: "
        with pytest.raises(UsageError, match=other_options):
            ingest_trees(store, TreebankFile(str(other)), Transformations())


def test_a_store_of_pairs_accepts_no_trees(store_url: str, treebank: str) -> None:
    with open_store(store_url, create=True) as store, pytest.raises(WrongKindError, match="--kind trees"):
        ingest_trees(store, TreebankFile(treebank))


def test_commands_ingest_a_treebank_learn_and_parse(hierogram: Run, treebank: str, tmp_path: Path) -> None:
    store = ("--store", "sqlite:///trees.db")
    ran = hierogram(*store, "ingest", "--trees", treebank, "--strict", "--json")
    assert ran.code == 1
    assert json.loads(ran.out)["reasons"] == {"malformed-tree": 1, "empty-side": 1}
    assert hierogram(*store, "ingest", "--trees", treebank).out.startswith("0 trees stored, 4 duplicates")
    (tmp_path / "text").write_text("the cat saw the small dog .\n")
    unlearned = hierogram("parse", "sqlite:///trees.db", "text")
    assert unlearned.code == 3
    assert "nothing learned yet" in unlearned.err
    assert hierogram(*store, "learn", "--sweeps", "5").code == 0
    parsed = hierogram("parse", "sqlite:///trees.db", "text")
    assert parsed.out == ("(TOP (S (NP (DT the) (NN cat)) (VP (VBD saw) (NP (DT the) (JJ small) (NN dog))) (. .)))\n")
    assert hierogram(*store, "ingest", "--trees", treebank, "--rare", "2").code == 2
    assert hierogram(*store, "ingest", "--trees", treebank, treebank).code == 2


def test_documented_treebank_commands_run(hierogram: Run, treebank: str, tmp_path: Path) -> None:
    document = (Path(__file__).parents[4] / "docs" / "trees.md").read_text()
    (tmp_path / "sentences.txt").write_text("the dog saw the cat\n")
    (tmp_path / "gold.mrg").write_text("(S (NP (DT the) (NN dog)) (VP (VBD saw) (NP (DT the) (NN cat))))\n")
    block = re.findall(r"```sh\n(.*?)```", document, re.DOTALL)[0]
    for line in block.splitlines():
        ran = hierogram(*line.split()[1:])
        assert ran.code == 0, (line, ran.err)
    assert "F1 1.0000" in ran.out


AMBIGUOUS = """\
(S (NP (N stars)) (VP (V shine)))
(S (NP (N stars)) (VP (V shine)))
(S (NP (N stars)) (VP (V shine)))
(S (NP (N ears)) (VP (V saw) (NP (N stars))))
(S (NP (N ears)) (VP (V saw) (NP (N stars))))
(S (NP (N ears)) (VP (V saw) (NP (NP (N stars)) (PP (P with) (NP (N ears))))))
(S (NP (N ears)) (VP (VP (V saw) (NP (N stars))) (PP (P with) (NP (N ears)))))
(S (NP (NP (N ears)) (PP (P with) (NP (N stars)))) (VP (V shine)))
"""


@pytest.fixture
def uniform(hierogram: Run, store_url: str, copy_store: CopyStore, tmp_path: Path) -> str:
    """URL of a learned store with a uniform base distribution, next to a sentence file. Parametrized by database."""
    (tmp_path / "trees").write_text(AMBIGUOUS)
    (tmp_path / "text").write_text("ears saw stars with stars with ears\n")

    def make(url: str) -> None:
        chosen = ("--store", url)
        assert hierogram(*chosen, "init", "--kind", "trees", "--base", "uniform").code == 0
        assert hierogram(*chosen, "ingest", "--trees", "trees", "--rare", "0").code == 0
        assert hierogram(*chosen, "learn", "--sweeps", "10").code == 0

    copy_store("uniform base", store_url, make)
    return store_url


@pytest.mark.slow
def test_parsing_with_a_store_uses_its_base_distribution(hierogram: Run, uniform: str) -> None:
    parsed = hierogram("parse", uniform, "text", "--method", "mpd")
    assert "base distribution" not in parsed.err
    assert hierogram("parse", uniform, "text", "--method", "mpd", "--base", "uniform").out == parsed.out
    assert hierogram("parse", uniform, "text", "--method", "mpd", "--base", "pcfg").out != parsed.out
    assert hierogram("--store", uniform, "export", "--format", "fragments", "-o", "grammar.txt").code == 0
    of_file = hierogram("parse", "grammar.txt", "text")
    assert "grammar.txt: the file does not name its base distribution" in of_file.err
    assert "base distribution" not in hierogram("parse", "grammar.txt", "text", "--base", "uniform").err
    refused = hierogram("parse", "grammar.txt", "text", "--base", "zipf")
    assert (refused.code, "one of uniform, pcfg" in refused.err) == (2, True)


@pytest.mark.slow
def test_sentences_are_parsed_with_a_store_named_in_any_way(
    hierogram: Run, uniform: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    expected = hierogram("parse", uniform, "text").out
    assert expected.startswith("(TOP (S ")
    assert hierogram("parse", "text", "--store", uniform).out == expected
    assert hierogram("--store", uniform, "parse", "text").out == expected
    missing = hierogram("parse", "text")
    assert (missing.code, "hierogram.db" in missing.err) == (3, True)
    monkeypatch.setenv("HIEROGRAM_STORE", uniform)
    assert hierogram("parse", "text").out == expected
    # The value of --store is a store, even if it looks like a file.
    assert hierogram("parse", "text", "--store", "trees").code == 2
    monkeypatch.setenv("HIEROGRAM_STORE", "sqlite:///none.db")
    assert hierogram("parse", uniform, "text").out == expected
    two = hierogram("parse", uniform, "text", "--store", uniform)
    assert (two.code, "mutually exclusive" in two.err) == (2, True)
    assert hierogram("parse", uniform, "text", "text").code == 2


def test_the_error_for_input_of_another_kind_names_the_input_that_the_store_accepts(
    hierogram: Run, tmp_path: Path
) -> None:
    (tmp_path / "c.bars").write_text("la maison ||| the house ||| 0-0 1-1\n")
    (tmp_path / "t.mrg").write_text("(S (NP (PRP he)) (VP (VBD slept)))\n")
    for kind in ("trees", "synchronous"):
        assert hierogram("--store", f"{kind}.db", "init", "--kind", kind).code == 0
    pairs = hierogram("--store", "trees.db", "ingest", "c.bars")
    assert (pairs.code, pairs.err.count("a store of trees cannot ingest sentence pairs: ingest trees")) == (3, 1)
    trees = hierogram("--store", "synchronous.db", "ingest", "--trees", "t.mrg")
    assert (trees.code, trees.err.count("a store of sentence pairs cannot ingest trees: ingest pairs")) == (3, 1)
    # No batch was started.
    for kind in ("trees", "synchronous"):
        with open_store(f"sqlite:///{kind}.db") as store:
            assert store.status().corpora == {}


@pytest.mark.database("sqlite")
def test_parser_uses_posterior_means_or_the_current_sample(uniform: str) -> None:
    with open_store(uniform) as store, store.snapshot() as snapshot:
        means, drawn = load_grammar(store)[0], load_grammar(store, current_sample=True)[0]
        rules = {rule.target: rule for rule in rule_rows(snapshot)}
    expected = {text: rule.expected_uses for text, rule in rules.items() if rule.expected_uses}
    present = {text: float(rule.count) for text, rule in rules.items() if rule.count}
    assert {str(fragment): uses for fragment, uses in means.fragments} == expected
    assert {str(fragment): uses for fragment, uses in drawn.fragments} == present
    assert expected.keys() != present.keys()
    assert means.productions() == drawn.productions()
    assert binarize(means).productions() == binarize(drawn).productions()


def test_production_without_a_posterior_mean_is_still_used_for_parsing() -> None:
    def counted(*rows: tuple[str, float]) -> list[tuple[Tree, float]]:
        return [(read_tree(text, frontiers=True), uses) for text, uses in rows]

    derivations = counted(("(TOP (A))", 3.0), ("(A x)", 2.0), ("(A y)", 1.0))
    known = approximate(TreeGrammar(counted(("(TOP (A))", 1.0), ("(TOP (A x))", 2.0)), derivations))
    assert str(Parser(known, draws=0).parse(["y"], 0).tree) == "(TOP (A y))"


@pytest.mark.database("sqlite")
def test_current_sample_option_requires_a_store(hierogram: Run, uniform: str) -> None:
    assert hierogram("parse", uniform, "text", "--current-sample").code == 0
    assert hierogram("--store", uniform, "export", "--format", "fragments", "-o", "grammar.txt").code == 0
    refused = hierogram("parse", "grammar.txt", "text", "--current-sample")
    assert (refused.code, "grammar.txt: --current-sample requires a store" in refused.err) == (2, True)
