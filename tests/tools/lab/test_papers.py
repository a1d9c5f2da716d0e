"""Commands for figures and tables of the papers: samplers, schedules, and grammars of the ITG."""

import csv
import math
from pathlib import Path

import numpy as np
import pytest
from tests.tools.lab.programs import invoke_lab, run_lab

from hierogram.tools.lab.papers.sampling import Point, group_curves, reached, report
from hierogram.tools.lab.papers.schedules import PAPER, table

FIGURES = {
    "figure-5": ("top-down", "Metropolis-Hastings"),
    "figure-6": ("with density factor", "without density factor"),
    "stratified": ("stratified", "every level from the first sweep"),
    "processes": ("Pitman-Yor, by length", "Dirichlet, by length (d = 0)", "length-free Dirichlet, α = 100"),
}


@pytest.fixture(scope="module")
def bitext(tmp_path_factory: pytest.TempPathFactory) -> list[str]:
    folder = tmp_path_factory.mktemp("bitext")
    for name, lines in {
        "f": [f"le chat {k % 7} dort ici" for k in range(20)],
        "e": [f"the cat {k % 7} sleeps here" for k in range(20)],
        "a": ["0-0 1-1 2-2 3-3 4-4"] * 20,
    }.items():
        (folder / name).write_text("".join(f"{line}\n" for line in lines))
    return [str(folder / name) for name in "fea"]


def read_rows(module: str, *arguments: str, figure: Path) -> list[dict[str, str]]:
    run_lab(f"papers.{module}", *arguments, "--figure", figure)
    assert figure.read_bytes().startswith(b"\x89PNG")
    with figure.with_suffix(".csv").open() as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize("name", FIGURES)
def test_every_figure_is_drawn(name: str, bitext: list[str], tmp_path: Path) -> None:
    rows = read_rows("sampling", name, *bitext, "--sweeps", "12", "--runs", "2", figure=tmp_path / "f.png")
    assert {row["label"] for row in rows} == set(FIGURES[name])
    assert len(rows) == len(FIGURES[name]) * 2 * 13
    values = {(row["label"], row["seed"], row["sweep"]): float(row["log_likelihood"]) for row in rows}
    first, second, *_ = FIGURES[name]
    assert values[first, "1", "12"] > values[first, "1", "0"]
    # Both methods of a figure start with the same likelihood, except under different processes.
    assert (values[first, "1", "0"] == values[second, "1", "0"]) == (name != "processes")
    assert values[first, "1", "12"] != values[second, "1", "12"]


def test_a_schedule_is_compared_with_the_paper_s_schedule(bitext: list[str], tmp_path: Path) -> None:
    arguments = ["--sweeps", "20", "--other-sweeps", "9", "--seeds", "2", "--only", "quick"]
    rows = read_rows("schedules", *bitext, *arguments, figure=tmp_path / "s.png")
    labels = [row["label"] for row in rows]
    assert labels.count(PAPER) == 2 * 21
    assert len(labels) - labels.count(PAPER) == 2 * 10


def points(label: str, seed: int, values: list[float]) -> list[Point]:
    return [Point(label, seed, sweep, 2.0 * sweep, value) for sweep, value in enumerate(values)]


def test_the_time_to_reach_a_likelihood_is_measured() -> None:
    curve = group_curves([*points("a", 1, [-9, -5, -3]), *points("a", 2, [-9, -3, -4]), *points("a", 3, [-9, -8, -7])])[
        "a"
    ]
    assert curve.shape == (3, 3, 2)
    assert reached(curve, -4.0) == (1.5, 3.0, 2)
    assert reached(curve, [-5.0, -3.5, -9.0]) == (pytest.approx(2 / 3), pytest.approx(4 / 3), 3)
    assert reached(curve, -5.0, 2) == (2.0, 4.0, 2)
    unreached = reached(curve, 0.0)
    assert math.isnan(unreached.sweeps)
    assert unreached.seeds == 0


def test_the_table_compares_schedules_with_the_paper_s_schedule() -> None:
    lines = table(
        [
            *points(PAPER, 1, [-9, -8, -7, -4, -4, -4, -4, -4]),
            *points("other", 1, [-9, -3, -8, -2, -2, -2, -1, -3]),
            *points("other", 2, [-9, -3, -8, -2, -2, -2, -5, -7]),
        ],
        {"other": 2},
    ).splitlines()
    assert lines[2] == f"| {PAPER} | 3 | 6.0 | 43% | 1 of 1 | -4 | 0 |"
    assert lines[3] == "| other | 3 | 6.0 | 43% | 2 of 2 | -4 | 2 |"


def test_the_report_has_means_and_deviations() -> None:
    output = report([*points("a", 1, [-9, -5]), *points("a", 2, [-9, -3])])
    assert output == (
        f"a: log-likelihood -9 at the start, -4 after 1 sweep, -4 (standard deviation {np.std([-5, -3], ddof=1):,.0f}) "
        "after 1 sweep in 2.0 s of processor time"
    )


SAMPLED = ["--sweeps", "6", "--exhaustive", "2", "--seeds", "2"]


@pytest.mark.slow
def test_the_itg_samplers_are_compared(bitext: list[str], tmp_path: Path) -> None:
    """The command makes Table 1 and Figure 1 of the paper on slice sampling, and reuses existing samples."""
    arguments = [*SAMPLED, "--work", str(tmp_path / "work")]
    rows = read_rows("slice_sampling", *bitext[:2], *arguments, figure=tmp_path / "t.png")
    starts, sweeping = {"start LB", "start M1", "start M4"}, {
        "gibbs LB", "gibbs M1", "gibbs M4", "slice a=0.15 LB", "slice a=0.15 M1", "slice a=0.15 M4", "slice a=0.10 M1",
        "slice a=0.25 M1", "flat a=0.15 LB", "flat a=0.15 M1", "flat a=0.15 M4", "flat a=0.10 M1",
        "flat a=0.25 M1",
    }  # fmt: skip
    assert {row["sampler"] for row in rows} == {*starts, *sweeping, "exhaustive LB", "exhaustive M1"}
    assert len(rows) == 2 * (len(starts) + len(sweeping) * 7 + 2 * 3)
    values = {(row["sampler"], row["seed"], row["sweep"]): float(row["log_likelihood"]) for row in rows}
    one, other = ([values["gibbs M1", seed, str(sweep)] for sweep in range(1, 7)] for seed in "12")
    assert one != other
    # All runs with the same start have the same ln P before their first sweep.
    for name in ("gibbs LB", "slice a=0.15 LB", "exhaustive LB"):
        assert values[name, "1", "0"] == values["start LB", "1", "0"]
    again = read_rows("slice_sampling", *bitext[:2], *arguments, figure=tmp_path / "again.png")
    assert again == rows


@pytest.mark.slow
def test_phrase_samplers_are_compared_under_one_model(bitext: list[str], tmp_path: Path) -> None:
    arguments = ["--sweeps", "3", "--exhaustive", "1", "--phrases", "2", "--work", str(tmp_path / "work")]
    rows = read_rows("slice_sampling", *bitext[:2], *arguments, figure=tmp_path / "t.png")
    values = {(row["sampler"], row["sweep"]): float(row["log_likelihood"]) for row in rows}
    for name in ("gibbs M1", "slice a=0.15 M1", "flat a=0.15 M1"):
        # All runs start with words, and some continue with phrases.
        assert values[name, "0"] == values[f"{name} words only", "0"] == values["start M1", "0"]
        assert values[name, "3"] != values[f"{name} words only", "3"]
    assert not any("0.10" in name or "exhaustive M1 words only" in name for name, _ in values)


@pytest.mark.slow
def test_grammars_of_raw_pairs_translate_with_phrases(tmp_path: Path) -> None:
    """A phrase that cannot be translated word by word is learned, and existing results are reused."""
    pattern = ("w{a} dort s' il te plaît v{b} maintenant", "W{a} sleeps please V{b} now")
    pairs = [[side.format(a=k % 11, b=k % 7) for side in pattern] for k in range(77)]
    for side in (0, 1):
        (tmp_path / f"c.{side}").write_text("".join(f"{pair[side]}\n" for pair in pairs))
    work = tmp_path / "work"
    arguments = [tmp_path / "c.0", tmp_path / "c.1", "--work", work, "--test", "10", "--tuning", "10"]
    arguments += ["--phrases", "1,4", "--sweeps", "30", "--iterations", "2", "--threads", "1"]
    lines = run_lab("papers.itg_phrases", *arguments).splitlines()
    rows = [line.split("\t") for line in lines]
    assert [row[0] for row in rows] == ["grammar", "phrases of 1", "phrases of 4"]
    of_words, of_phrases = (float(row[4].split()[0]) for row in rows[1:])
    assert of_phrases > 90 > of_words
    longest = [
        max(len(line.split(" ||| ")[1].split(" ")) for line in (work / name).read_text().splitlines())
        for name in ("itg-1.cdec", "itg-4.cdec")
    ]
    assert longest[0] == 1 < longest[1] <= 4
    before = {path: path.stat().st_mtime_ns for path in work.iterdir()}
    assert run_lab("papers.itg_phrases", *arguments).splitlines() == lines
    assert all(path.stat().st_mtime_ns == time for path, time in before.items() if path.suffix in (".db", ".cdec"))


@pytest.mark.campaign
def test_grammars_from_links_of_the_itg_samplers_translate(bitext: list[str], tmp_path: Path) -> None:
    """With `--test`, the command adds BLEU on held-out pairs to Table 1 of the paper on slice sampling."""
    varied = []
    for path, pattern in zip(bitext, ("la {a} {n} dort", "the {n} {a} sleeps"), strict=False):
        varied.append(tmp_path / Path(path).name)
        lines = [pattern.format(a=f"w{k % 11}", n=f"v{k % 7}") + "\n" for k in range(77)]
        varied[-1].write_text("".join(lines))
    arguments = [*map(str, varied), "--work", str(tmp_path / "work"), "--sweeps", "20", "--exhaustive", "0"]
    arguments += ["--test", "10", "--tuning", "10", "--min-a", "0.15"]
    output = run_lab("papers.slice_sampling", *arguments)
    table = output[output.index("| sampler") :].splitlines()[2:]
    bleu = {cells[1].strip(): float(cells[8].split()[0]) for cells in (line.split("|") for line in table)}
    assert {*bleu} >= {"bhmm-f", "start LB", "gibbs M1", "slice a=0.15 M1"}
    assert not any(name.startswith("exhaustive") or "0.10" in name for name in bleu)
    assert bleu["bhmm-f"] > 90
    assert bleu["slice a=0.15 M1"] > 90
    assert all(0 <= value <= 100 for value in bleu.values())
    # The folder has results of other options, which must not be mixed with new ones.
    assert (tmp_path / "work" / "weights.toml").exists()
    refused = invoke_lab("papers.slice_sampling", *arguments, "--pairs", "30")
    assert refused.exit_code != 0
    assert "name another folder" in refused.stderr + str(refused.exception)
