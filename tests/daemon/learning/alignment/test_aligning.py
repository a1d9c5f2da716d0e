"""`hierogram align` with files, and the evaluation of its links."""

import gzip
import json
from itertools import pairwise
from pathlib import Path

import pytest
import zstandard
from tests.daemon.conftest import Run
from tests.daemon.learning.alignment.languages import invented_corpus

from hierogram.daemon.learning.alignment.aligning import align, corpus_options
from hierogram.daemon.learning.alignment.options import AlignOptions
from hierogram.samplers.alignment.models.registry import MODELS
from hierogram.tools.alignment_scores import GoldLinks, evaluate


@pytest.fixture
def files(tmp_path: Path) -> tuple[list[str], list[str], list[str]]:
    """Lines of the files `s`, `t` and `gold`, which are in `tmp_path`."""
    corpus = invented_corpus(400)
    for name, lines in zip(("s", "t", "gold"), corpus, strict=True):
        (tmp_path / name).write_text("".join(line + "\n" for line in lines))
    return corpus


Files = tuple[list[str], list[str], list[str]]


@pytest.mark.parametrize(("model", "most"), [("bhmm-f", 0.02), ("bhmm", 0.06), ("bhmm-z", 0.12)])
def test_each_model_finds_the_links_of_an_invented_language(
    hierogram: Run, files: Files, tmp_path: Path, model: str, most: float
) -> None:
    ran = hierogram("align", "s", "t", "-o", "out", "--model", model, "--sweeps", "60")
    assert (ran.code, ran.out) == (0, "")
    assert "out: 400 pairs, " in ran.err
    assert len((tmp_path / "out").read_text().splitlines()) == 400
    result = json.loads(hierogram("evaluate", "out", "-r", "gold", "--of", "links", "--json").out)
    assert result["pairs"] == 400
    assert result["aer"] < most


def test_links_do_not_depend_on_compression_or_number_of_threads(hierogram: Run, files: Files, tmp_path: Path) -> None:
    (tmp_path / "s.gz").write_bytes(gzip.compress((tmp_path / "s").read_bytes()))
    (tmp_path / "t.zst").write_bytes(zstandard.compress((tmp_path / "t").read_bytes()))
    short = ("--sweeps", "6", "--chains", "3")
    plain = hierogram("align", "s", "t", *short, "--threads", "1").out
    assert plain.count("\n") == 400
    assert hierogram("align", "s.gz", "t.zst", *short, "--threads", "4").out == plain
    assert hierogram("align", "s", "t", *short, "-o", "-").out == plain
    assert not (tmp_path / "-").exists()
    for name in ("a", "a.gz", "a.zst"):
        assert hierogram("align", "s", "t", *short, "-o", name).code == 0
    assert (tmp_path / "a").read_text() == plain
    assert gzip.decompress((tmp_path / "a.gz").read_bytes()).decode() == plain
    whole = zstandard.ZstdDecompressor().decompressobj().decompress((tmp_path / "a.zst").read_bytes())
    assert whole.decode() == plain
    assert hierogram("align", "s", "t", *short, "--seed", "2").out != plain


def test_symmetrization_changes_the_links(hierogram: Run, files: Files) -> None:
    short = ("align", "s", "t", "--sweeps", "3", "--chains", "1")
    likely = hierogram(*short).out
    assert likely.count("\n") == 400
    assert hierogram(*short, "--symmetrize", "expected").out == likely
    assert hierogram(*short, "--symmetrize", "posterior").out != likely
    united = hierogram(*short, "--symmetrize", "union").out
    assert united != likely


def test_score_option_adds_a_probability_to_each_link(hierogram: Run, files: Files) -> None:
    short = ("--sweeps", "10", "--chains", "2")
    for direction in ("both", "forward", "backward"):
        plain = hierogram("align", "s", "t", *short, "--direction", direction).out.splitlines()
        scored = hierogram("align", "s", "t", *short, "--direction", direction, "--score").out.splitlines()
        for line, with_scores in zip(plain, scored, strict=True):
            links, _, scores = with_scores.partition(" ||| ")
            assert links == line
            assert len(scores.split()) == len(links.split())
            assert all(0 < float(score) <= 1 for score in scores.split())


def test_every_format_contains_the_link_probabilities(hierogram: Run, files: Files, tmp_path: Path) -> None:
    short = ("--sweeps", "6", "--chains", "3")
    scored = [line.split(" ||| ") for line in hierogram("align", "s", "t", *short, "--score").out.splitlines()]
    for name in ("a.jsonl", "a.naacl", "a.naacl.gz"):
        assert hierogram("align", "s", "t", *short, "-o", name).code == 0
    pairs = [json.loads(line) for line in (tmp_path / "a.jsonl").read_text().splitlines()]
    assert [pair["alignment"] for pair in pairs] == [links for links, _ in scored]
    expected = []
    for number, ((links, scores), pair) in enumerate(zip(scored, pairs, strict=True), 1):
        for link, score, written in zip(links.split(), scores.split(), pair["links"], strict=True):
            source, target = map(int, link.split("-"))
            assert written == {"source": source, "target": target, "probability": float(score)}
            expected.append(f"{number} {source + 1} {target + 1} S {score}")
    assert len({line.split()[-1] for line in expected}) > 100
    assert (tmp_path / "a.naacl").read_text().splitlines() == expected
    assert gzip.decompress((tmp_path / "a.naacl.gz").read_bytes()).decode().splitlines() == expected


def test_each_direction_links_a_word_at_most_once_and_the_union_joins_both_directions(files: Files) -> None:
    source, target, _ = files
    found = {
        name: align(source, target, AlignOptions(direction=name, sweeps=6, chains=1))
        for name in ("forward", "backward")
    }
    for name, aligned in found.items():
        links = aligned.links
        for start, stop in pairwise(links.offset.tolist()):
            pairs = list(zip(links.source[start:stop].tolist(), links.target[start:stop].tolist(), strict=True))
            assert pairs == sorted(set(pairs))
            words = [t if name == "forward" else s for s, t in pairs]
            assert len(set(words)) == len(words)
    both = {
        method: set(align(source, target, AlignOptions(symmetrization=method, sweeps=6, chains=1)).lines())
        for method in ("intersect", "union")
    }
    forward, backward = (found[name].lines() for name in ("forward", "backward"))
    united = {
        " ".join(sorted({*one.split(), *other.split()}, key=numbers))
        for one, other in zip(forward, backward, strict=True)
    }
    assert both["union"] == united


def numbers(link: str) -> tuple[int, ...]:
    return tuple(map(int, link.split("-")))


def test_empty_sides_give_empty_lines(hierogram: Run, tmp_path: Path) -> None:
    (tmp_path / "s").write_text("a b\n\n\nc\n")
    (tmp_path / "t").write_text("x y\n\nz\n\n")
    for model in MODELS:
        ran = hierogram("align", "s", "t", "--model", model, "--sweeps", "5")
        assert ran.code == 0
        assert ran.out.split("\n")[1:] == ["", "", "", ""]


def test_a_corpus_without_pairs_gives_an_empty_file(hierogram: Run, tmp_path: Path) -> None:
    (tmp_path / "s").write_text("")
    assert hierogram("align", "s", "s", "-o", "out").code == 0
    assert (tmp_path / "out").read_text() == ""


def test_align_reports_invalid_files_and_options(hierogram: Run, tmp_path: Path) -> None:
    (tmp_path / "one").write_text("a\n")
    (tmp_path / "two").write_text("a\nb\n")
    (tmp_path / "latin").write_bytes(b"a\n\xe9t\xe9\n")
    ran = hierogram("align", "one", "two")
    assert (ran.code, "one has 1 line, two has 2 lines" in ran.err) == (3, True)
    ran = hierogram("align", "two", "latin")
    assert (ran.code, "latin, line 2: byte 1 is not UTF-8" in ran.err) == (3, True)
    ran = hierogram("align", "two", "none")
    assert (ran.code, "none: cannot be opened" in ran.err) == (3, True)
    ran = hierogram("align", "two", "two", "-o", "nowhere/out")
    assert (ran.code, "cannot be written" in ran.err) == (3, True)
    for option, value in (("--model", "ibm4"), ("--direction", "up"), ("--symmetrize", "grow")):
        ran = hierogram("align", "two", "two", option, value)
        assert (ran.code, repr(value) in ran.err) == (2, True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["latin", "one", "two"]


def test_bhmm_and_bhmm_z_have_the_settings_of_their_paper() -> None:
    for model, sweeps, warm in (("bhmm", 2000, 1600), ("bhmm-z", 1000, 0)):
        options = corpus_options(AlignOptions(model), 1_000)
        assert (options.sweeps, options.thinning, options.chains) == (sweeps, 25, 1)
        assert (options.warming, options.burn_in) == (warm, warm)
        assert (options.jump, options.lexical, options.collocation) == (1.0, 1e-4, 1e-4)
        assert options.similarity == 0
    assert corpus_options(AlignOptions(sweeps=1), 5).is_sampled(1)
    assert corpus_options(AlignOptions(), 10**6).sweeps < corpus_options(AlignOptions(), 10).sweeps


def test_the_error_rate_of_a_worked_example_is_correct() -> None:
    gold = [
        GoldLinks(frozenset({(0, 0), (1, 1)}), frozenset({(0, 0), (1, 1), (1, 2)})),
        GoldLinks(frozenset({(0, 0)}), frozenset({(0, 0)})),
    ]
    found = [frozenset({(0, 0), (1, 2), (2, 2)}), frozenset({(0, 0)})]
    result = evaluate(gold, found)
    # |A| = 4, |S| = 3, |A∩S| = 2, |A∩P| = 3.
    assert result.aer == pytest.approx(1 - 5 / 7)
    assert result.precision == pytest.approx(3 / 4)
    assert result.recall == pytest.approx(2 / 3)
    assert (result.links, result.sure, result.possible) == (4, 3, 4)
    assert evaluate([], []).aer == 0.0


ZERO = ["0-0 1-1 2-2", "0-0 1-1", "0-0 1-2 2-1"]
ONE = ["1-1 2p2 3-3", "1-1 2-2", "1-1 2-3 3-2"]


@pytest.mark.parametrize(
    ("links", "gold", "noted"),
    [
        (
            ZERO,
            ONE,
            "gold: no link refers to word 0, so words seem to be counted from 1: use evaluate --of links-from-1",
        ),
        (
            ONE[1:],
            ZERO[1:],
            "links: no link refers to word 0, so words seem to be counted from 1: subtract 1 from all word numbers",
        ),
        # These links contain mistakes and leave some words unlinked.
        (["0-0 1-2 2-2", "0-1 1-1", "1-2 2-1"], ONE, "gold: no link refers to word 0"),
        (ZERO, ZERO, None),
        (ONE[1:], ONE, None),
        # Word 0 may have no link, so no note is given.
        (["0-0 1-1 2-2"], ["1-1 2-2"], None),
        (ZERO, ["", "", ""], None),
    ],
)
def test_a_note_is_given_only_if_the_links_or_the_reference_seem_to_count_words_from_one(
    hierogram: Run, tmp_path: Path, links: list[str], gold: list[str], noted: str | None
) -> None:
    (tmp_path / "links").write_text("".join(line + "\n" for line in [*links, *[""] * (len(gold) - len(links))]))
    (tmp_path / "gold").write_text("".join(line + "\n" for line in gold))
    ran = hierogram("evaluate", "links", "-r", "gold", "--of", "links", "--json")
    notes = [note["text"] for note in json.loads(ran.out)["notes"]]
    assert len(notes) == (noted is not None)
    if noted is not None:
        assert notes[0].startswith(noted)
        assert f"one-based: {notes[0]}" in ran.err


def test_a_reference_may_count_from_one(hierogram: Run, tmp_path: Path) -> None:
    (tmp_path / "links").write_text("".join(line + "\n" for line in ZERO))
    (tmp_path / "gold").write_text("".join(line + "\n" for line in ONE))
    ran = hierogram("evaluate", "links", "-r", "gold", "--of", "links-from-1")
    assert ran.out.startswith("AER 0.0000  precision 1.0000  recall 1.0000")
    assert ran.err == ""
    ran = hierogram("evaluate", "links", "-r", "links", "--of", "links-from-1")
    assert (ran.code, "links, line 1: '0-0' refers to word 0, but words must be counted from 1" in ran.err) == (3, True)


def test_manual_links_may_be_sure_or_possible(hierogram: Run, tmp_path: Path) -> None:
    (tmp_path / "gold").write_text("0-0 1-1 1p2\n0-0\n")
    (tmp_path / "found").write_text("0-0 1-2 2-2 ||| 0.9 0.8 0.7\n0-0\n7-7\n")
    output = hierogram("evaluate", "found", "-r", "gold", "--of", "links").out
    assert output.startswith("AER 0.2857  precision 0.7500  recall 0.6667\n2 pairs, 4 links")
    (tmp_path / "short").write_text("0-0\n")
    ran = hierogram("evaluate", "short", "-r", "gold", "--of", "links")
    assert (ran.code, "short has 1 lines, but gold has 2" in ran.err) == (3, True)
    for bad in ("0-0\n0:1\n", "0-0\n0p1\n", "0-0\n-1-1\n"):
        (tmp_path / "bad").write_text(bad)
        ran = hierogram("evaluate", "bad", "-r", "gold", "--of", "links")
        assert ran.code == 3
        assert "bad, line 2: " in ran.err
