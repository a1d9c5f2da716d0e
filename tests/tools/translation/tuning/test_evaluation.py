"""The `hierogram evaluate` command compared with sacrebleu's command and library."""

import builtins
import json
import re
import subprocess
import sys
from pathlib import Path
from random import Random
from unicodedata import normalize

import pytest
import sacrebleu
from tests.daemon.conftest import Run

WORDS = ["the", "a", "house", "door", "green", "white", "is", "was", "in", "of", "and", "he", "she", "not", "see"]


@pytest.fixture
def files(tmp_path: Path) -> list[str]:
    """Two translations and two references. Every third line of the second reference is empty."""
    random = Random(1)
    reference = [[random.choice(WORDS) for _ in range(random.randint(4, 12))] for _ in range(60)]
    texts = {
        "first": [[w if random.random() < 0.8 else random.choice(WORDS) for w in line] for line in reference],
        "second": [[w if random.random() < 0.9 else random.choice(WORDS) for w in line] for line in reference],
        "one": reference,
        "two": [line[::-1] if k % 3 else [] for k, line in enumerate(reference)],
    }
    for name, lines in texts.items():
        (tmp_path / name).write_text("".join(" ".join(line) + "\n" for line in lines))
    return list(texts)


def run_sacrebleu(folder: Path, *arguments: str) -> str:
    """Return the output of sacrebleu's command."""
    command = [sys.executable, "-m", "sacrebleu", *arguments, "--format", "text"]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout


@pytest.mark.slow
def test_scores_and_significance_tests_match_sacrebleu(hierogram: Run, files: list[str], tmp_path: Path) -> None:
    ran = hierogram("evaluate", "first", "second", "-r", "one", "--json")
    assert ran.code == 0, ran.err
    found = json.loads(ran.out)
    output = run_sacrebleu(
        tmp_path, "one", "-i", "first", "second", "-m", "bleu", "chrf", "ter", "--paired-bs", "-w", "4"
    )
    # The output has two rows of three metrics, and three tests in the second row.
    expected = [[*map(float, cell)] for cell in re.findall(r"([\d.]+) \(([\d.]+) ± ([\d.]+)\)", output)]
    tests = [float(p) for p in re.findall(r"\(p = ([\d.]+)\)", output)]
    assert (len(expected), len(tests)) == (6, 3)
    assert [metric["metric"] for metric in found] == ["BLEU", "chrF2", "TER"]
    for column, metric in enumerate(found):
        for row, score in enumerate(metric["scores"]):
            stated = [score["score"], (score["low"] + score["high"]) / 2, (score["high"] - score["low"]) / 2]
            assert stated == pytest.approx(expected[3 * row + column], abs=1e-4)
        assert metric["scores"][0]["p"] is None
        assert metric["scores"][1]["p"] == pytest.approx(tests[column], abs=1e-4)
        assert metric["signature"] in re.sub(r"\s+", "", output)


def test_references_may_be_missing_for_some_sentences(hierogram: Run, files: list[str]) -> None:
    ran = hierogram("evaluate", "first", "-r", "one", "-r", "two", "--metrics", "bleu", "--json", "--tokenizer", "none")
    [metric] = json.loads(ran.out)
    assert "nrefs:var" in metric["signature"]
    assert "tok:none" in metric["signature"]
    [alone] = json.loads(hierogram("evaluate", "first", "-r", "one", "--metrics", "bleu", "--json").out)
    assert metric["scores"][0]["score"] > alone["scores"][0]["score"]


def sacrebleu_scores(translation: list[str], *references: list[str]) -> list[float]:
    """Return the scores of sacrebleu's library for one translation."""
    metrics = sacrebleu.BLEU(), sacrebleu.CHRF(), sacrebleu.TER()
    return [metric.corpus_score(translation, references).score for metric in metrics]


def test_empty_references_count_as_in_sacrebleu(hierogram: Run, files: list[str], tmp_path: Path) -> None:
    first, one = ((tmp_path / name).read_text().splitlines() for name in ("first", "one"))
    for number, (reference, translation) in enumerate(
        [(["", *one[1:]], ["", *first[1:]]), (["", *one[1:]], first), (one, ["", *first[1:]])]
    ):
        for name, lines in (("r", reference), ("t", translation)):
            (tmp_path / f"{name}{number}").write_text("".join(line + "\n" for line in lines))
        ran = hierogram("evaluate", f"t{number}", "-r", f"r{number}", "--json")
        found = [metric["scores"][0]["score"] for metric in json.loads(ran.out)]
        assert found == pytest.approx(sacrebleu_scores(translation, reference))
        ran = hierogram("evaluate", f"t{number}", "-r", f"r{number}", "-r", f"r{number}", "--json")
        assert json.loads(ran.out)[0]["scores"][0]["score"] == pytest.approx(
            sacrebleu_scores(translation, reference)[0]
        )


def test_text_in_other_normal_forms_is_the_same_text(hierogram: Run, files: list[str], tmp_path: Path) -> None:
    text = "Tilelli ɣef uẓayer n tmeṭṭut\nḤemmleɣ adrar d uẓru\n"
    for form in ("NFC", "NFD"):
        (tmp_path / form).write_text(normalize(form, text))
    for translation, reference in (("NFC", "NFD"), ("NFD", "NFC"), ("NFD", "NFD")):
        ran = hierogram("evaluate", translation, "-r", reference, "--json")
        assert [metric["scores"][0]["score"] for metric in json.loads(ran.out)] == pytest.approx([100, 100, 0])


def test_a_table_ends_with_signatures(hierogram: Run, files: list[str]) -> None:
    lines = hierogram("evaluate", "first", "second", "-r", "one", "--metrics", "bleu,ter").out.splitlines()
    assert lines[0].split("\t") == ["translation", "BLEU", "±", "p", "TER", "±", "p"]
    assert [line.split("\t")[0] for line in lines[1:3]] == ["first", "second"]
    assert lines[1].split("\t")[3] == ""
    assert lines[3].startswith("BLEU: nrefs:1|bs:1000|seed:12345|case:mixed|")
    assert lines[4].startswith("TER: ")


def test_unusable_files_and_unknown_metrics_are_rejected(hierogram: Run, files: list[str], tmp_path: Path) -> None:
    (tmp_path / "short").write_text("the house\n")
    (tmp_path / "none").write_text("")
    ran = hierogram("evaluate", "first", "-r", "short")
    assert (ran.code, "short has 1 lines, but first has 60" in ran.err) == (3, True)
    (tmp_path / "empty").write_text("\n" * 60)
    ran = hierogram("evaluate", "first", "-r", "empty")
    assert (ran.code, "empty: no references, because all lines are empty" in ran.err) == (3, True)
    assert "none has no lines" in hierogram("evaluate", "none", "-r", "none").err
    assert hierogram("evaluate", "first", "-r", "one", "--metrics", "meteor").code == 2


def test_missing_sacrebleu_is_reported(hierogram: Run, files: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    load = builtins.__import__

    def without(name: str, *arguments, **options):
        if name.startswith("sacrebleu"):
            raise ImportError(name)
        return load(name, *arguments, **options)

    monkeypatch.setattr(builtins, "__import__", without)
    ran = hierogram("evaluate", "first", "-r", "one")
    assert (ran.code, "pip install '.[evaluate]'" in ran.err) == (2, True)


def test_the_documented_evaluate_commands_run(hierogram: Run, files: list[str], tmp_path: Path) -> None:
    for name, copied in (("old.en", "first"), ("new.en", "second"), ("test.en", "one"), ("test2.en", "two")):
        (tmp_path / name).write_text((tmp_path / copied).read_text())
    document = (Path(__file__).parents[4] / "docs" / "evaluation.md").read_text()
    shown = re.findall(r"^hierogram (evaluate .*)$", document, re.MULTILINE)
    assert len(shown) == 2
    for line in shown:
        ran = hierogram(*line.split())
        assert ran.code == 0, ran.err
        assert "nrefs" in ran.out
