"""Ingest of parse forests, as n-best lists and packed forests, with their transformations."""

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.daemon.conftest import Run
from tests.daemon.text.treebanks.ingesting import ingest_trees
from tests.samplers.grammar.unpacking import unpack_trees

from hierogram.daemon.learning.learning import learn
from hierogram.daemon.learning.verifying import verify
from hierogram.daemon.text.rejections import RejectionError
from hierogram.daemon.text.treebanks.forests import clean_forest, is_forest, pack_trees, read_forest, transform_forest
from hierogram.daemon.text.treebanks.reading import TreebankFile
from hierogram.daemon.text.treebanks.transformations import (
    COLLAPSE,
    Transformations,
    clean_tree,
    restore_tree,
    transform_tree,
)
from hierogram.daemon.text.treebanks.trees import read_tree
from hierogram.samplers.grammar.brackets import pack, read_parse, write_parse
from hierogram.samplers.grammar.settings import TREES
from hierogram.storage.records.settings import Settings
from hierogram.storage.store import open_store

DOCUMENT = (Path(__file__).parents[4] / "docs" / "trees.md").read_text()
LISTS, FORESTS = re.findall(r"```text\n(.*?)```", DOCUMENT, re.DOTALL)
QUICK = Settings(grammar=TREES, annealing=4, round_sweeps=2)

SHE_SAW_HER_DUCK = (
    "(S1 (S (NP (PRP She)) (VP (| #1=(VBD saw) (NP (PRP$ her) (NN duck))) (| (#1) (S (NP (PRP her)) (VP (VB duck)))))))"
)

LABELS = st.sampled_from(["S", "NP", "NP-SBJ", "NP=2", "VP"])


@st.composite
def trees_over(draw: st.DrawFn, leaves: tuple[str, ...], depth: int = 3) -> str:
    """Return a tree over these pre-terminals."""
    cuts = sorted(draw(st.sets(st.integers(1, len(leaves) - 1), max_size=3))) if len(leaves) > 1 else []
    parts = [leaves[i:j] for i, j in zip([0, *cuts], [*cuts, len(leaves)], strict=True)]
    children = [
        draw(trees_over(part, depth - 1)) if depth and (draw(st.booleans()) or len(part) > 1) else " ".join(part)
        for part in parts
    ]
    return f"({draw(LABELS)} {' '.join(children)})"


@st.composite
def lists(draw: st.DrawFn) -> list[str]:
    """Return trees of one sentence, with the same root label."""
    kinds = draw(st.lists(st.sampled_from(["(D the)", "(N-X dog)", "(-NONE- *)", "(V saw)"]), min_size=1, max_size=5))
    return [f"(R {draw(trees_over(tuple(kinds)))})" for _ in range(draw(st.integers(1, 4)))]


@pytest.mark.slow
@given(lists())
def test_a_forest_is_transformed_like_its_trees(texts: list[str]) -> None:
    transformations = Transformations()
    forest = pack([read_parse(text) for text in texts])
    whole = {read_tree(text) for text in unpack_trees(forest)}
    if not {"the", "dog", "saw"} & set(forest.words):
        with pytest.raises(RejectionError, match="no words"):
            clean_forest(forest, transformations)
        return
    changed = transform_forest(clean_forest(forest, transformations))
    assert unpack_trees(changed) == {
        str(transform_tree(clean_tree(tree, transformations), transformations)) for tree in whole
    }
    assert {restore_tree(read_tree(text), transformations) for text in unpack_trees(changed)} == {
        clean_tree(tree, transformations) for tree in whole
    }
    assert read_parse(write_parse(changed)).words == changed.words


def test_nodes_that_become_equal_are_merged() -> None:
    forest = read_forest(b"(S (| (NP-SBJ (N a)) (V b))\n   (| (NP=1 (N a)) (V b))\r\n (| (X a) (V b)))")
    changed = clean_forest(forest, Transformations())
    assert write_parse(changed) == "(TOP (S (| (NP (N a)) #1=(V b)) (| (X a) (#1))))"


def test_forest_notation_is_distinguished_from_words_and_labels() -> None:
    assert all(is_forest(text) for text in (b"(S (| a))", b"(S #1=(A a) b)", b"(S ( #12 ) b)", b"(S (|\n(A a)))"))
    assert not any(is_forest(text) for text in (b"(S (A |) (B #1))", b"(NP|ADVP #1= (A a))", b"(S (# #) (||| a))"))


def test_forests_that_cannot_be_transformed_are_rejected() -> None:
    for text, transformations, reason in (
        ("(S (| (-NONE- *) (V b)) (| (N *) (V b)))", Transformations(), "malformed-tree: word 1, '*', is an empty"),
        ("(S (| (-NONE- *)) (| (X (-NONE- *))))", Transformations(), "empty-side"),
        ("(S (| a) (| (@X a)))", Transformations(), "malformed-tree: label '@X'"),
        ("(TOP (| a) (| (X a)))", Transformations(), "malformed-tree: the word 'a' is directly below"),
        ("(S (| (N a)) (| (X (N a))))", Transformations(unary=COLLAPSE), "forest-option"),
    ):
        with pytest.raises(RejectionError) as rejection:
            clean_forest(read_forest(text.encode()), transformations)
        assert f"{rejection.value.reason}: {rejection.value.message}".startswith(reason)


@pytest.mark.slow
def test_the_documented_commands_learn_rules_from_lists_and_forests(
    store_url: str, hierogram: Run, tmp_path: Path
) -> None:
    (tmp_path / "lists.txt").write_text(LISTS)
    (tmp_path / "forests.txt").write_text(FORESTS)
    [block] = [block for block in re.findall(r"```sh\n(.*?)```", DOCUMENT, re.DOTALL) if "forests.db" in block]
    commands = block.splitlines()
    runs = []
    for line in commands:
        ran = hierogram(*line.replace("forests.db", store_url).split()[1:])
        assert ran.code == 0, (line, ran.err)
        runs.append(ran)
    assert runs[0].out.startswith("2 forests stored, 0 duplicates in the corpus default, 0 lines rejected")
    assert runs[1].out.startswith("1 tree stored, 0 duplicates in the corpus default, 2 lines rejected")
    assert re.search(r"forests.txt:1: malformed-tree: .*beside words or other child nodes", runs[1].err)
    assert re.search(
        r"forests.txt:5: malformed-tree: .*expected the word 'She' as in another expansion, got 'He'", runs[1].err
    )
    assert "(NP" in runs[4].out
    with open_store(store_url) as store:
        rows = store.pairs()
        assert [row.source for row in rows] == ["She saw her duck", "She saw her dog", "UNK-INITC saw her duck"]
        assert rows[0].target == SHE_SAW_HER_DUCK
        assert rows[2].target == SHE_SAW_HER_DUCK.replace("She", "UNK-INITC")
        assert rows[1].target == (
            "(S1 (S (NP (PRP She)) (VP (| #1=(VBD saw) (NP (PRP$ her) #2=(NN dog)))"
            " (| (#1) (@VP (NP (PRP her)) (NP (#2)))))))"
        )
        assert all(row.current is not None for row in rows)
        (tmp_path / "again.txt").write_text(FORESTS.replace("He", "She"))
        # The store already has a forest of this file, from a list.
        assert ingest_trees(store, TreebankFile(str(tmp_path / "again.txt"))).totals.duplicates == 1


def test_lists_of_equal_trees_are_stored_like_a_treebank(store_url: str, tmp_path: Path) -> None:
    text = "(S (NP-SBJ (DT the) (NN dog))\n   (VP (VBD slept) (, ,) (NP (-NONE- *))))\n"
    (tmp_path / "trees").write_text(text)
    same = "(TOP (S (NP (DT the) (NN dog)) (VP (VBD slept) (, ,))))\n"
    (tmp_path / "lists").write_text(f"1\n-3.5e1\n{text}\n\n{text}{same}")
    with open_store(store_url, create=True, settings=QUICK) as store:
        lists = TreebankFile(str(tmp_path / "lists"), lists=True)
        assert ingest_trees(store, lists, Transformations(unary=COLLAPSE)).lines == 2
        first, second = store.pairs()
        # Trees that become equal are merged.
        assert first.target == second.target
        assert "|" not in first.target
        assert ingest_trees(store, TreebankFile(str(tmp_path / "trees"))).totals.duplicates == 1
        learn(store, sweeps=2)
        assert verify(store).problems == []


BAD_LISTS = """\
-1 (S (N a) (V b))
-2 (S (N a) (V b) (X c))

2
(S (N a))
(S (N a)

(S (N a))
nothing
3 three
-1
(S (N a))

3 three
-1
(S (N a))

-12.5

(S (N a))
(S
 (| a) (| (N a)))

(S (N a b c d e))

(S (N \0))

(S (N good))
"""


def test_invalid_lists_are_recorded_with_line_and_reason(store_url: str, tmp_path: Path) -> None:
    (tmp_path / "lists").write_text(BAD_LISTS)
    with open_store(store_url, create=True, settings=Settings(grammar=TREES, max_tokens=4)) as store:
        done = ingest_trees(store, TreebankFile(str(tmp_path / "lists"), lists=True))
        assert (done.lines, done.totals.accepted, done.totals.rejected) == (9, 1, 8)
        assert done.reasons == {"malformed-tree": 5, "different-words": 1, "too-long": 1, "nul-byte": 1}
        found = [(line.line, line.message) for line in done.first_rejected]
        expected = [
            (1, "tree 2 of the list has a different sentence: word 3 is 'c', but missing in tree 1"),
            (4, "line 6, tree 2 of the list: 1 unclosed bracket, the last is (S"),
            (8, "line 9: expected a tree or its log-probability, got 'nothing'"),
            (14, "the header of the list announces 3 trees, got 1"),
            (18, "the list has no trees"),
            (20, "line 21, tree 2 of the list: label '|' is reserved by the notation of packed forests"),
            (24, "the tree has 5 words, the limit of this store is 4"),
            (26, "line 26, tree 1 of the list: the tree contains a NUL byte at offset 6"),
        ]
        assert [line for line, _ in found] == [line for line, _ in expected][: len(found)]
        for (_, message), (_, start) in zip(found, expected, strict=False):
            assert message.startswith(start)
        assert store.pairs()[0].source == "UNK-LC"


def test_a_shorter_tree_of_a_list_is_rejected() -> None:
    with pytest.raises(RejectionError, match=r"tree 2 .*: word 2 is missing, but 'b' in tree 1"):
        pack_trees([read_tree("(S (N a) (V b))"), read_tree("(S (N a))")])


def test_a_store_that_collapses_chains_rejects_forests(hierogram: Run, tmp_path: Path) -> None:
    (tmp_path / "forests.txt").write_text(FORESTS)
    ran = hierogram("--store", "sqlite:///x.db", "ingest", "--trees", "--unary", "collapse", "forests.txt", "--json")
    assert json.loads(ran.out)["reasons"] == {"malformed-tree": 2, "forest-option": 1}
    assert hierogram("ingest", "--nbest", "forests.txt").code == 2
