"""Treebanks into stores, and parsing with what was learned from them."""

import json
import re
from pathlib import Path

import pytest
from tests.daemon.conftest import Run

from hierogram.daemon.exceptions import UsageError
from hierogram.daemon.treebanks.ingest import TreebankFile, ingest_trees, treebank_of
from hierogram.daemon.treebanks.transformations import Transformations
from hierogram.samplers.grammar.settings import TREES
from hierogram.storage.records import Settings
from hierogram.storage.store import open_store

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
        settled = treebank_of(store)
        assert settled is not None
        assert settled.how == Transformations()
        assert settled.vocabulary.known == {"the", "dog", "cat", "saw", "She", "|||"}
        again = ingest_trees(store, TreebankFile(treebank))
        assert (again.totals.accepted, again.totals.duplicates) == (0, 4)


def test_the_first_trees_settle_words_and_transformations(store_url: str, treebank: str, tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.write_text("(S (NP (NNS genes)) (VP (VBP saw)))\n" * 3)
    with open_store(store_url, create=True, settings=Settings(grammar=TREES)) as store:
        ingest_trees(store, TreebankFile(treebank), Transformations(rare=0, functions=True))
        assert store.pairs()[0].target.startswith("(TOP (S (NP-SBJ-1 (DT the) (NN dog)) (@S (VP (VBD saw) (NP (DT the)")
        ingest_trees(store, TreebankFile(str(other)))
        assert store.pairs()[-1].target == "(TOP (S (NP (NNS UNK-LC-s)) (VP (VBP saw))))"
        with pytest.raises(UsageError, match="for its life"):
            ingest_trees(store, TreebankFile(str(other)), Transformations())


def test_a_store_of_pairs_takes_no_trees(store_url: str, treebank: str) -> None:
    with open_store(store_url, create=True) as store, pytest.raises(UsageError, match="--grammar trees"):
        ingest_trees(store, TreebankFile(treebank))


def test_from_a_treebank_to_a_parse_on_the_command_line(hierogram: Run, treebank: str, tmp_path: Path) -> None:
    store = ("--store", "sqlite:///trees.db")
    ran = hierogram(*store, "ingest", "--trees", treebank, "--strict", "--json")
    assert ran.code == 1
    assert json.loads(ran.out)["reasons"] == {"malformed-tree": 1, "empty-side": 1}
    assert hierogram(*store, "ingest", "--trees", treebank).out.startswith("0 trees stored, 4 known already")
    (tmp_path / "text").write_text("the cat saw the small dog .\n")
    unlearned = hierogram("parse", "sqlite:///trees.db", "text")
    assert unlearned.code == 3
    assert "nothing has been learned yet" in unlearned.err
    assert hierogram(*store, "learn", "--sweeps", "5").code == 0
    parsed = hierogram("parse", "sqlite:///trees.db", "text")
    assert parsed.out == ("(TOP (S (NP (DT the) (NN cat)) (VP (VBD saw) (NP (DT the) (JJ small) (NN dog))) (. .)))\n")
    assert hierogram(*store, "ingest", "--trees", treebank, "--rare", "2").code == 2
    assert hierogram(*store, "ingest", "--trees", treebank, treebank).code == 2


def test_the_commands_of_the_document_run(hierogram: Run, treebank: str, tmp_path: Path) -> None:
    document = (Path(__file__).parents[3] / "docs" / "trees.md").read_text()
    (tmp_path / "sentences.txt").write_text("the dog saw the cat\n")
    (tmp_path / "gold.mrg").write_text("(S (NP (DT the) (NN dog)) (VP (VBD saw) (NP (DT the) (NN cat))))\n")
    block = re.findall(r"```sh\n(.*?)```", document, re.DOTALL)[0]
    for line in block.splitlines():
        ran = hierogram(*line.split()[1:])
        assert ran.code == 0, (line, ran.err)
    assert "F1 1.0000" in ran.out
