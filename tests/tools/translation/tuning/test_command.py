"""`hierogram tune`: weights that translate better, in a file that `translate` reads."""

import json
import re
import shlex
import sys
import tomllib
from pathlib import Path
from unicodedata import normalize

import pytest
from tests.daemon.conftest import Run
from tests.daemon.parts import VERSES, make_parts

import hierogram as hg
from hierogram.daemon.progress import Progress
from hierogram.storage.records.parts import join_parts
from hierogram.tools.translation.grammars import read_weights
from hierogram.tools.translation.resources import WEIGHTS_WITHOUT_MODEL
from hierogram.tools.translation.tuning_runs import PAIRS_PER_HELD_OUT, hold_out

DOCUMENT = (Path(__file__).parents[4] / "docs" / "tuning.md").read_text(encoding="utf-8")

GRAMMAR = """\
[X] ||| la ||| the ||| Good=-1 Bad=0 EGivenF=-1
[X] ||| la ||| of ||| Good=-2 Bad=1 EGivenF=-0.1
[X] ||| maison ||| house ||| Good=-1 Bad=0 EGivenF=-1
[X] ||| maison ||| home ||| Good=-2 Bad=1 EGivenF=-0.1
[X] ||| verte ||| green ||| Good=-1 Bad=0 EGivenF=-1
[X] ||| verte ||| grey ||| Good=-2 Bad=1 EGivenF=-0.1
"""


@pytest.fixture
def inputs(tmp_path: Path) -> Path:
    """A grammar with wrong probabilities, sentences to tune on, and references."""
    (tmp_path / "grammar.cdec").write_text(GRAMMAR)
    source = ["la maison verte la maison", "la verte maison la", "maison la verte la", "", "la la maison verte"]
    target = ["the house green the house", "the green house the", "house the green the", "x", "the the house green"]
    (tmp_path / "dev.fr").write_text("".join(line + "\n" for line in source))
    (tmp_path / "dev.en").write_text("".join(line + "\n" for line in target))
    (tmp_path / "dev2.en").write_text("\n\nhome the green the\n\n\n")
    return tmp_path


def test_tuned_weights_translate_better(hierogram: Run, inputs: Path) -> None:
    before = hierogram("translate", "grammar.cdec", "dev.fr").out
    ran = hierogram("tune", "grammar.cdec", "dev.fr", "-r", "dev.en", "-r", "dev2.en", "-o", "weights.toml", "--json")
    assert ran.code == 0, ran.err
    made = json.loads(ran.out)
    scores = [one["bleu"] for one in made["rounds"]]
    assert scores[0] < 30 < 80 < max(scores)
    after = hierogram("translate", "grammar.cdec", "dev.fr", "--weights", "weights.toml").out
    assert before != after
    expected = (inputs / "dev.en").read_text().replace("x\n", "\n")
    different = [word != right for word, right in zip(after.split(), expected.split(), strict=True)]
    assert sum(different) <= 1
    assert made["weights"]["Bad"] < made["weights"]["Good"]

    written = tomllib.loads((inputs / "weights.toml").read_text())
    assert read_weights("weights.toml") == written["weights"] == made["weights"]
    assert written["weights"].keys() == {"Good", "Bad", "p_target_given_source", "words", "rules", "glue", "unknown",
                                         "lm", "lm_unknown"}  # fmt: skip
    assert [{**one, "weights": None} for one in written["rounds"]] == [
        {**one, "weights": None} for one in made["rounds"]
    ]
    assert written["weights"] == {
        name: weight * written["tuning"]["scale"]
        for name, weight in written["rounds"][made["best_round"] - 1]["weights"].items()
    }
    first = written["rounds"][0]["weights"]
    assert first["p_target_given_source"] == WEIGHTS_WITHOUT_MODEL["p_target_given_source"]
    assert (made["best_round"], made["start_is_best"]) == (scores.index(max(scores)) + 1, False)
    assert written["tuning"]["best_round"] == made["best_round"]
    assert written["tuning"]["references"] == ["dev.en", "dev2.en"]
    assert written["tuning"]["seed"] == 1
    assert written["rounds"][-1]["candidates"] == 0 or len(scores) == 16


def test_tuning_continues_from_weights_and_does_not_depend_on_threads(hierogram: Run, inputs: Path) -> None:
    (inputs / "start.toml").write_text("[weights]\nGood = 0.125\nBad = 0.5\n")
    files = []
    for threads in ("1", "2"):
        ran = hierogram("tune", "grammar.cdec", "dev.fr", "-r", "dev.en", "-o", f"{threads}.toml", "--weights",
                        "start.toml", "--iterations", "2", "--threads", threads)  # fmt: skip
        assert ran.out.splitlines()[0] == "round\tBLEU\tratio\tcandidates\tsentences"
        files.append((inputs / f"{threads}.toml").read_text())
    assert files[0] == files[1]
    first = tomllib.loads(files[0])["rounds"][0]["weights"]
    assert (first["Good"], first["Bad"], first["words"]) == (0.125, 0.5, 0)


def test_tune_reports_that_the_starting_weights_are_best(hierogram: Run, inputs: Path) -> None:
    (inputs / "best.toml").write_text("[weights]\nGood = 1.0\nBad = -1.0\n")
    arguments = ("tune", "grammar.cdec", "dev.fr", "-r", "dev.en", "-o", "w.toml", "--weights", "best.toml")
    made = json.loads(hierogram(*arguments, "--json").out)
    assert (made["best_round"], made["start_is_best"]) == (1, True)
    assert "no round improved on the starting weights" in hierogram(*arguments).err
    assert read_weights("w.toml")["Good"] == 1.0


def test_missing_scipy_is_reported_before_anything_is_read(
    hierogram: Run, inputs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "scipy", None)
    ran = hierogram("tune", "nowhere.cdec", "dev.fr", "-r", "dev.en", "-o", "weights.toml")
    assert (ran.code, "pip install '.[tune]'" in ran.err) == (2, True)
    assert "read" not in ran.err


def test_unusable_or_missing_references_are_reported(hierogram: Run, inputs: Path) -> None:
    ran = hierogram("tune", "grammar.cdec", "dev.fr", "-r", "grammar.cdec", "-o", "weights.toml")
    assert (ran.code, "grammar.cdec has 6 lines, but dev.fr has 5" in ran.err) == (3, True)
    (inputs / "empty.en").write_text("\n" * 5)
    ran = hierogram("tune", "grammar.cdec", "dev.fr", "-r", "empty.en", "-o", "weights.toml")
    assert (ran.code, "empty.en: no references, because all lines are empty" in ran.err) == (3, True)
    ran = hierogram("tune", "grammar.cdec", "dev.fr", "-o", "weights.toml")
    assert (ran.code, "-r FILE" in ran.err) == (2, True)
    assert not (inputs / "weights.toml").exists()


@pytest.mark.parametrize("form", ["NFC", "NFD"])
def test_references_in_another_normal_form_and_empty_ones_are_accepted(hierogram: Run, inputs: Path, form: str) -> None:
    (inputs / "uẓru.cdec").write_text(normalize("NFC" if form == "NFD" else "NFD", GRAMMAR.replace("house", "uẓru")))
    reference = (inputs / "dev.en").read_text().replace("house", "uẓru").replace("x\n", "\n")
    (inputs / "dev.kab").write_text(normalize(form, reference))
    ran = hierogram("tune", "uẓru.cdec", "dev.fr", "-r", "dev.kab", "-o", "weights.toml", "--json")
    assert ran.code == 0, ran.err
    assert max(one["bleu"] for one in json.loads(ran.out)["rounds"]) == 100


@pytest.mark.slow
@pytest.mark.database("sqlite")
def test_pairs_of_the_store_are_held_out_for_tuning(hierogram: Run, tmp_path: Path) -> None:
    url = make_parts(tmp_path)
    with hg.open(url) as store:
        before = store.status()
        ran = hierogram("--store", url, "tune", "-o", "weights.toml", "--iterations", "2", "--json")
        assert ran.code == 0, ran.err
        assert store.status() == before
        rounds = json.loads(ran.out)["rounds"]
        assert {one["sentences"] for one in rounds} == {len(VERSES) // PAIRS_PER_HELD_OUT}
        weights = tomllib.loads((tmp_path / "weights.toml").read_text())
        assert weights["tuning"]["sentences"] == "8 pairs of the store"
        assert "lm" not in weights["tuning"]
        assert len(hg.Decoder(store, weights="weights.toml").translate("nina").text.split()) == 1
        shown = Progress("hold out", "pairs")
        with hold_out(store.store, 3, 1, shown) as (copy, _, sentences, references):
            assert len(sentences) == 3
            assert set(zip(sentences, references, strict=True)) <= set(VERSES)
            left = hg.GrammarStore(copy, created=False)
            assert left.verify().problems == []
            kept = {(join_parts(row.source), join_parts(row.target)) for row in copy.pairs()}
            assert kept == set(VERSES) - set(zip(sentences, references, strict=True))


def test_tuning_without_files_checks_the_store_and_its_options(hierogram: Run, inputs: Path) -> None:
    with hg.open(inputs / "few.db", create=True) as store:
        store.add(VERSES[:9])
    ran = hierogram("--store", "few.db", "tune", "-o", "weights.toml")
    assert (ran.code, "too few pairs" in ran.err) == (2, True)
    ran = hierogram("--store", "few.db", "tune", "-o", "weights.toml", "--lm", "news.lm")
    assert (ran.code, "--lm requires FILE" in ran.err) == (2, True)
    with hg.open(inputs / "few.db") as store, pytest.raises(hg.UsageError, match="expected sentences"):
        hg.tune(store, None, [inputs / "dev.en"], inputs / "weights.toml")


@pytest.mark.slow
def test_the_documented_tune_commands_run(hierogram: Run, inputs: Path) -> None:
    (inputs / "test.fr").write_text("la maison verte\n")
    (inputs / "news.en").write_bytes((inputs / "dev.en").read_bytes())
    shown = [shlex.split(line) for line in re.findall(r"^hierogram (.*)$", DOCUMENT, re.MULTILINE)]
    of_store = ["--store", "news.db", "tune", "-o", "weights.toml"]
    assert [arguments for arguments in shown if arguments[0].startswith("-")] == [of_store]
    shown.remove(of_store)
    assert [arguments[0] for arguments in shown] == ["lm", "tune", "translate"]
    assert hierogram("--store", "news.db", "init").code == 0
    for arguments in shown:
        ran = hierogram(*arguments)
        assert ran.code == 0, ran.err
    assert (inputs / "test.en").read_text() == "the house green\n"
    for option in re.findall(r"`(--[a-z-]+)", DOCUMENT):
        assert option in hierogram("tune", "--help").out, option
