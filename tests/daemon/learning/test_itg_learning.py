"""An inversion transduction grammar in a store: learn raw pairs, query a dictionary, repair."""

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.daemon.conftest import Run
from tests.daemon.learning.raw_pairs import QUICK, RAW, put
from tests.storage.building import query, read_counts

from hierogram.daemon.learning.derivations import expected_rules, read_derivation, terminal_positions
from hierogram.daemon.learning.kinds.kind import load_stored
from hierogram.daemon.learning.learning import learn
from hierogram.daemon.learning.verifying import verify
from hierogram.samplers.exceptions import KeyCollisionError
from hierogram.samplers.grammar import keys
from hierogram.storage.records.pairs import WAITING, PairRow
from hierogram.storage.store import Store, open_store

STRAIGHT, INVERTED = ("[X,1] [X,2]", "[X,1] [X,2]"), ("[X,1] [X,2]", "[X,2] [X,1]")


@pytest.fixture
def raw(store_url: str) -> Iterator[Store]:
    """A store with a small corpus without links. Parametrized by database."""
    with open_store(store_url, create=True, settings=QUICK) as store:
        put(store, RAW)
        yield store


def test_stored_rules_equal_the_rules_of_the_derivations(raw: Store) -> None:
    assert raw.count_pairs(["waiting"]) == len(RAW)
    done = learn(raw, sweeps=6)
    assert (done.pairs, done.sweeps) == (len(RAW), QUICK.burn_in + 6)
    found = read_counts(raw)
    status = raw.status()
    assert done.rules_in_use_after == sum(count > 0 for count, _ in found.values())
    assert done.tokens_after == status.rule_tokens
    assert status.last_log_likelihood == pytest.approx(done.log_likelihood_after)
    checked = verify(raw)
    assert (checked.problems, checked.pairs) == ([], len(RAW))
    # Each word is in one lexical rule, and binary rules join the lexical rules of a pair.
    lexical = {sides: count for sides, (count, _) in found.items() if sides not in (STRAIGHT, INVERTED)}
    for side in (0, 1):
        assert sum(count for sides, count in lexical.items() if sides[side]) == sum(
            len(pair[side].split()) for pair in RAW
        )
    binary = sum(found.get(sides, (0, 0))[0] for sides in (STRAIGHT, INVERTED))
    assert binary == sum(lexical.values()) - len(RAW)
    # Expected uses have the same sum, except that small uses are rounded at random.
    expected = sum(sampled for sides, (_, sampled) in found.items() if sides[0] and sides not in (STRAIGHT, INVERTED))
    words = sum(len(source.split()) for source, _ in RAW)
    assert expected == pytest.approx(words, rel=0.03)
    assert {row.label for row in raw.labels()} == {"pair", "source null", "target null"}
    assert all(row.strength > 0 for row in raw.labels())


def test_an_error_names_rules_with_the_same_key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "ALL_BITS", np.uint64(0x1))
    rows = [PairRow(number, *sides, "", WAITING, 0, 0, None, None) for number, sides in enumerate(RAW, 1)]
    pairs = load_stored(rows, QUICK)
    rule = r"'.*? \|\|\| .*?'"
    with pytest.raises(KeyCollisionError, match=f"^rules {rule} and {rule} have the same key: run `hierogram learn`"):
        pairs.rules()


def test_a_learned_itg_is_a_dictionary_with_probabilities(raw: Store, store_url: str) -> None:
    learn(raw, sweeps=40)
    of_house = raw.find_rules("maison", limit=100)
    assert of_house[0].target == "house"
    assert sum(rule.p_target_given_source for rule in of_house) == pytest.approx(1)
    assert {rule.source for rule in raw.find_rules(target="house")} >= {"maison"}
    # A word that looks like the notation is found by its text, stored with an escape.
    assert {rule.source for rule in raw.find_rules(words=["[X,1]"])} == {"\\[X,1]"}
    rows = query(
        store_url,
        "SELECT target, p_target_given_source FROM rule_table WHERE source = 'maison'"
        " ORDER BY expected_uses DESC LIMIT 1",
    )
    assert rows[0][0] == "house"
    assert float(rows[0][1]) > 0.5
    # An untranslated word is a rule with an empty side.
    nulls = query(store_url, "SELECT sum(expected_uses) FROM rule_table WHERE source = '' OR target = ''")
    assert float(nulls[0][0]) > 0


@pytest.mark.slow
def test_the_commands_learn_verify_and_export_an_itg(hierogram: Run, tmp_path: Path, store_url: str) -> None:
    (tmp_path / "a.fr").write_text("".join(source + "\n" for source, _ in RAW))
    (tmp_path / "a.en").write_text("".join(target + "\n" for _, target in RAW))
    at = ("--store", store_url)
    assert hierogram(*at, "init", "--kind", "itg", "--burn-in", "3").code == 0
    assert hierogram(*at, "ingest", "a.fr", "a.en").code == 0
    assert json.loads(hierogram(*at, "status", "--json").out)["pairs"]["waiting"] == len(RAW)
    assert hierogram(*at, "learn", "--sweeps", "20").code == 0
    assert hierogram(*at, "verify").code == 0
    rules = json.loads(hierogram(*at, "rules", "maison", "--json").out)
    assert json.dumps(rules).count("house") > 0
    for name in ("g.jsonl", "g.tsv", "g.parquet"):
        ran = hierogram(*at, "export", "-o", name)
        assert ran.code == 0, ran.err
    exported = [json.loads(line) for line in (tmp_path / "g.jsonl").read_text().splitlines()]
    with open_store(store_url) as store:
        assert {(rule["source"], rule["target"]) for rule in exported} == {
            sides for sides, (_, sampled) in read_counts(store).items() if sampled and sides not in (STRAIGHT, INVERTED)
        }
    # Decoders get the rules with words on both sides.
    assert hierogram(*at, "export", "-o", "g.cdec").code == 0
    both = [line.split(" ||| ")[1:3] for line in (tmp_path / "g.cdec").read_text().splitlines()]
    wanted = [[rule["source"], rule["target"]] for rule in exported if rule["source"] and rule["target"]]
    assert len(both) == len(wanted) < len(exported)
    assert all(side.strip() for sides in both for side in sides)
    refused = hierogram(*at, "export", "-o", "x", "--format", "fragments")
    assert refused.code != 0
    assert "a store of ITG rules cannot be exported as fragments: use cdec, moses" in refused.err
    diagnosed = hierogram(*at, "diagnose", "--chains", "2", "--sweeps", "8", "--json")
    assert diagnosed.code in (0, 1), diagnosed.err
    refused = hierogram("--store", f"sqlite:///{tmp_path}/long.db", "init", "--kind", "itg", "--max-tokens", "300")
    assert (refused.code, "250" in refused.err) == (2, True), refused


TOGETHER = [
    *[("s' il te plaît", "please")] * 4,
    *[("viens s' il te plaît", "come please")] * 2,
    *[("viens", "come"), ("pomme de terre", "potato"), ("une pomme de terre", "a potato")] * 3,
    ("une porte", "a door"),
]
"""Pairs with words that are translated only as a phrase, such as `pomme de terre`."""


@pytest.mark.slow
def test_phrases_are_learned_verified_exported_and_used_for_translation(
    hierogram: Run, tmp_path: Path, store_url: str
) -> None:
    (tmp_path / "a.fr").write_text("".join(source + "\n" for source, _ in TOGETHER))
    (tmp_path / "a.en").write_text("".join(target + "\n" for _, target in TOGETHER))
    at = ("--store", store_url)
    assert hierogram(*at, "init", "--kind", "itg", "--phrase-words", "4", "--burn-in", "5").code == 0
    assert hierogram(*at, "ingest", "a.fr", "a.en").code == 0
    assert hierogram(*at, "learn", "--sweeps", "60").code == 0
    verified = hierogram(*at, "verify")
    assert verified.code == 0, verified.err
    with open_store(store_url) as store:
        of_words = {
            sides: count for sides, (count, _) in read_counts(store).items() if sides not in (STRAIGHT, INVERTED)
        }
        keys = [read_derivation(row, store.settings()) for row in store.pairs()]
        [found] = store.find_rules("s' il te plaît", limit=1)
    assert found.target == "please"
    assert max(len(side.split()) for sides in of_words for side in sides) == 4
    for side in (0, 1):
        words = sum(count * len(sides[side].split()) for sides, count in of_words.items())
        assert words == sum(len(pair[side].split()) for pair in TOGETHER)
    assert any(use.source == "s' il te plaît" for uses in keys for use in uses)
    # Decoder formats have the rules with words on both sides, and their probabilities.
    assert hierogram(*at, "export", "-o", "table.moses").code == 0
    lines = [line.split(" ||| ") for line in (tmp_path / "table.moses").read_text().splitlines()]
    assert ["s' il te plaît [X]", "please [X]"] in [line[:2] for line in lines]
    assert all(side.strip() != "[X]" for line in lines for side in line[:2])
    for name in ("g.cdec", "g.tsv"):
        ran = hierogram(*at, "export", "-o", name)
        assert ran.code == 0, ran.err
    (tmp_path / "new.fr").write_text("une pomme de terre\nviens s' il te plaît\n")
    for grammar in (at, ("g.cdec",)):
        translated = hierogram("translate", *grammar, "new.fr")
        assert translated.out.splitlines() == ["a potato", "come please"], translated.err
    assert hierogram(*at, "withdraw", "1", "2", "9").code == 0
    assert hierogram(*at, "verify").code == 0


@pytest.mark.database("sqlite")
def test_a_store_samples_with_the_slices_of_its_settings(tmp_path: Path) -> None:
    found = []
    for kind in ("flat", "beta"):
        settings = replace(QUICK, slices=kind)
        with open_store(f"sqlite:///{tmp_path}/{kind}.db", create=True, settings=settings) as store:
            put(store, RAW)
            learn(store, sweeps=6)
            assert verify(store).problems == []
            assert store.settings().slices == kind
            found.append(read_counts(store))
    assert found[0] != found[1]


def test_given_links_do_not_change_an_itg(tmp_path: Path) -> None:
    found = []
    for number, links in enumerate((None, "0-0")):
        with open_store(f"sqlite:///{tmp_path}/{number}.db", create=True, settings=QUICK) as store:
            put(store, RAW, links=links)
            learn(store, sweeps=3)
            assert verify(store).problems == []
            found.append(read_counts(store))
    assert found[0] == found[1]


def test_shown_derivations_cover_each_word_once(raw: Store) -> None:
    learn(raw, sweeps=10)
    settings = raw.settings()
    for row in raw.pairs():
        uses = read_derivation(row, settings)
        assert (uses[0].source_span, uses[0].target_span) == (
            (0, len(row.source.split())),
            (0, len(row.target.split())),
        )
        for side in ("source", "target"):
            words = [position for use in uses for position in terminal_positions(use, uses, side)]
            assert sorted(words) == list(range(len(getattr(row, side).split())))
        for use in uses:
            assert len(use.children) == (2 if "[X,2]" in use.source and "[X,1]" in use.source else 0)
        assert expected_rules(row, settings)[0].expected_uses > 0
    assert raw.count_unindexed() == 0
    with raw.snapshot() as snapshot:
        pairs = {row.id for rows in snapshot.iterate_derivations() for row in rows}
    assert pairs == {row.id for row in raw.pairs()}
