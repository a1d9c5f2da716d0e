"""Nonterminals that are refined, from `init` to translations, by commands."""

import json
from pathlib import Path

import pytest
from tests.daemon.conftest import Run
from tests.daemon.exports import parsers
from tests.storage.building import query

from hierogram.daemon.exports.publication import manifest_path
from hierogram.daemon.learning.derivations import derivation_of
from hierogram.daemon.learning.drawing import draw
from hierogram.daemon.web.pages.rendering import Symbol, symbols_of
from hierogram.storage.store import open_store

_PAIRS = [
    ("la maison est grande", "the house is big", "0-0 1-1 2-2 3-3"),
    ("la maison blanche", "the white house", "0-0 1-2 2-1"),
    ("une fleur blanche est petite", "a white flower is small", "0-0 1-2 2-1 3-3 4-4"),
    ("la fleur", "the flower", "0-0 1-1"),
    ("la petite fleur est blanche", "the small flower is white", "0-0 1-1 2-2 3-3 4-4"),
    ("une grande maison", "a big house", "0-0 1-1 2-2"),
] * 3
_CLASSES = "house\t1\nflower\t1\nis\t2\nwhite\t0\n"


@pytest.fixture
def learned(hierogram: Run, tmp_path: Path, store_url: str) -> str:
    """A store whose classes were given, which has learned."""
    (tmp_path / "classes.txt").write_text(_CLASSES)
    (tmp_path / "pairs.tsv").write_text("".join("\t".join(pair) + "\n" for pair in _PAIRS))
    ran = hierogram("--store", store_url, "init", "--classes-of", "classes.txt", "--burn-in", "2")
    assert (ran.code, ran.err) == (0, "")
    assert "  labels           3\n" in ran.out
    assert hierogram("--store", store_url, "ingest", "pairs.tsv").code == 0
    assert hierogram("--store", store_url, "learn", "--sweeps", "4").code == 0
    return store_url


@pytest.mark.slow
def test_a_store_with_labels_is_learned_verified_exported_and_translated_with(
    hierogram: Run, tmp_path: Path, learned: str
) -> None:
    assert hierogram("--store", learned, "verify").code == 0
    with open_store(learned) as store:
        assert store.settings().classes == ("flower house", "is")
    rows = query(learned, "SELECT target, label FROM rule_table WHERE nonterminals = 0")
    of_word = dict(rows)
    # A phrase of one word has the class of that word twice, of three: 3 + 1, 2 * 3 + 2.
    assert [of_word.get(word) for word in ("flower", "is", "white")] == [4, 8, 0]
    (tmp_path / "in.fr").write_text("la petite maison est blanche\nune fleur inconnue\n")
    translations = set()
    for suffix in ("cdec", "moses", "joshua", "thrax", "tsv", "jsonl", "parquet"):
        name = f"g.{suffix}"
        assert hierogram("--store", learned, "export", "-o", name, "--max-scope", "3").code == 0
        ran = hierogram("translate", name, "in.fr", "--max-scope", "3")
        assert ran.code == 0, ran.err
        translations.add(ran.out)
    assert hierogram("--store", learned, "export", "-o", "g.packed", "--format", "packed", "--max-scope", "3").code == 0
    translations.add(hierogram("translate", "g.packed", "in.fr").out)
    assert translations == {"the small house is white\na flower inconnue\n"}
    found = [parsers.cdec(line) for line in parsers.lines(tmp_path / "g.cdec")]
    assert len({rule.label for rule in found}) > 3
    assert any(isinstance(symbol, int) and symbol > 65536 for rule in found for symbol in rule.source)
    manifest = json.loads(manifest_path(tmp_path / "g.cdec").read_text())
    assert manifest["settings"]["classes"] == ["flower house", "is"]


def test_rules_derivations_and_pages_show_labels(hierogram: Run, learned: str) -> None:
    used = set(query(learned, "SELECT source, target FROM rules WHERE count > 0"))
    with open_store(learned) as store:
        settings = store.settings()
        derivations = [derivation_of(row, settings) for row in store.pairs()]
    shown = {(use.source, use.target) for uses in derivations for use in uses}
    assert shown == used
    assert all(draw(uses).startswith("<svg") for uses in derivations[:6])
    source, target = min(both for both in used if "[X4," in both[0])
    ran = hierogram("--store", learned, "rules", "--pairs", source, "|||", target)
    assert ran.code == 0, ran.err
    assert symbols_of("a [X12,1] [X,2]", settings) == [Symbol("a"), Symbol("", 1, label=12), Symbol("", 2)]


def test_classes_are_learned_from_text(hierogram: Run, tmp_path: Path, store_url: str) -> None:
    (tmp_path / "text.en").write_text("".join(target + "\n" for _, target, _ in _PAIRS))
    ran = hierogram("--store", store_url, "init", "--labels", "3", "--classes-of", "text.en")
    assert (ran.code, ran.err) == (0, "")
    with open_store(store_url) as store:
        found = [set(words.split(" ")) for words in store.settings().classes]
    assert len(found) == 2
    assert set.union(*found) < {word for _, target, _ in _PAIRS for word in target.split()}
    assert not set.intersection(*found)


@pytest.mark.database("sqlite")
@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (("--labels", "3"), "classes_of"),
        (("--classes-of", "text.en"), "labels, 2 to 16"),
        (("--labels", "17", "--classes-of", "text.en"), "labels"),
        (("--classes-of", "text.en", "--kind", "trees"), "word classes"),
        (("--classes-of", "many.txt"), "class 16"),
    ],
)
def test_what_is_wrong_is_said(
    hierogram: Run, tmp_path: Path, store_url: str, arguments: tuple[str, ...], reason: str
) -> None:
    (tmp_path / "text.en").write_text("a b\n")
    (tmp_path / "many.txt").write_text("a\t16\n")
    ran = hierogram("--store", store_url, "init", *arguments)
    assert ran.code == 2
    assert reason in ran.err
