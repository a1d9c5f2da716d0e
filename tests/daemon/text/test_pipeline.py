"""Raw text gives the same results as tokenized text in every interface of a tokenizing store."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.daemon.conftest import Run

from hierogram.daemon.learning.alignment.incremental import align_pending
from hierogram.daemon.learning.learning import learn
from hierogram.daemon.text.ingest import ingest
from hierogram.daemon.text.inspection import count_signs
from hierogram.daemon.text.pair_files import PairFiles
from hierogram.daemon.text.pipeline import UNCHANGED_TEXT, TextPipeline, make_pipeline
from hierogram.storage.records.pairs import IngestTotals
from hierogram.storage.records.settings import Settings
from hierogram.storage.store import open_store
from hierogram.tools.translation.fixed_words import Glossary, InputPhrase, input_phrases

RAW = [
    ("L'eau est là.", "The water is there."),
    ("L'homme est là.", "The man is there."),
    ("L'eau, c'est la vie!", "Water, that's life!"),
    ("L'homme boit l'eau.", "The man drinks the water."),
]
BOTH = TextPipeline(("fr", "en"), ("fr", "en"))
HAND = [BOTH.pair(*pair) for pair in RAW]
WANTED = "L'homme, c'est l'eau."
DIVIDED = "L' homme , c' est l' eau ."


@pytest.fixture
def raw_store(tmp_path: Path) -> str:
    """Path of a tokenizing store that has learned from raw pairs, next to files of raw text and of tokens."""
    for kind, pairs in (("raw", RAW), ("hand", HAND)):
        for number, language in enumerate(("fr", "en")):
            (tmp_path / f"{kind}.{language}").write_text("".join(pair[number] + "\n" for pair in pairs))
    (tmp_path / "in.raw").write_text(WANTED + "\n")
    (tmp_path / "in.hand").write_text(DIVIDED + "\n")
    settings = Settings(languages=("fr", "en"), tokenize=True, burn_in=2, round_sweeps=1)
    paths = [str(tmp_path / f"raw.{language}") for language in ("fr", "en")]
    with open_store(str(tmp_path / "s.db"), create=True, settings=settings) as store, PairFiles(paths) as source:
        ingest(store, source)
        align_pending(store)
        learn(store, sweeps=3)
    return str(tmp_path / "s.db")


def test_text_is_tokenized_by_the_rules_of_its_side() -> None:
    assert BOTH.source.tokens(WANTED) == DIVIDED
    assert HAND[2] == ("L' eau , c' est la vie !", "Water , that 's life !")
    assert BOTH.target.tokenize_bytes(b"\xff.") == b"\xff."
    assert UNCHANGED_TEXT.source.tokens(WANTED) == WANTED
    assert make_pipeline(BOTH.as_settings()) == BOTH
    lowered = make_pipeline({"languages": ["fr", "en"], "tokenize": True, "case": "lowered"})
    assert lowered.source.tokens("L'Eau.") == "l' eau ."
    assert make_pipeline(lowered.as_settings()) == lowered


@pytest.mark.parametrize("code", ["de", "en", "und"])
def test_soft_hyphens_do_not_split_words(code: str) -> None:
    side = make_pipeline({}, tokenize=(code, code)).source
    for text in ("Wort\u00adteil, %s Un\u00adter\u00adschied.", "Wort\u00adteil, Un\u00adter\u00adschied."):
        assert side.tokens(text) == side.tokens(text.replace("\u00ad", ""))
    assert TextPipeline().source.tokens("Wort\u00adteil") == "Wort\u00adteil"
    text = "Wort\u00adteil\u00ad und Wortteil."
    words = side.words(text, [])
    assert [text[word.start : word.end].replace("\u00ad", "") for word in words] == [word.token for word in words]
    assert words[0].start == 0
    assert side.words("Q\u00adkaZz", [])[0].start == 0


@pytest.mark.parametrize(
    "settings",
    [Settings(), Settings(languages=("fr", "en"), tokenize=True), Settings(languages=("fr", "en"), case="lowered")],
)
def test_characters_that_are_not_text_are_rejected_with_and_without_tokenization(
    settings: Settings, tmp_path: Path
) -> None:
    (tmp_path / "s").write_bytes(b"La vie.\nUn mot.\rUn autre.\nUn m\0ot.\nOui.\r\n")
    (tmp_path / "t").write_bytes(b"Life.\nA word.\nA word.\nYe\rs.\n")
    with (
        open_store(str(tmp_path / "made.db"), create=True, settings=settings) as store,
        PairFiles([str(tmp_path / name) for name in "st"]) as source,
    ):
        report = ingest(store, source)
    assert report.totals == IngestTotals(accepted=1, rejected=3)
    assert report.reasons == {"line-break": 2, "nul-byte": 1}


def test_given_translations_are_tokenized_like_sentences() -> None:
    marked = "Ici <n translation=\"the man's||men\">l'homme</n>, là."
    assert input_phrases(marked, BOTH, markup=True) == [
        InputPhrase(("Ici",)),
        InputPhrase(("l'", "homme"), (("the", "man", "'s"), ("men",))),
        InputPhrase((",", "là", ".")),
    ]  # fmt: skip
    entries = {("l'eau",): (("the", "man's"), ("water",))}
    [part] = Glossary(entries).tokenized_by(BOTH).apply([InputPhrase(("l'", "eau"))])
    assert part == InputPhrase(("l'", "eau"), (("the", "man", "'s"), ("water",)))


def translate(hierogram: Run, *arguments: str) -> str:
    ran = hierogram("translate", *arguments)
    assert ran.code == 0, ran.err
    assert "the text seems to be" not in ran.err
    return ran.out


@pytest.mark.slow
def test_translating_raw_text_equals_translating_its_tokens(hierogram: Run, raw_store: str, tmp_path: Path) -> None:
    tokens = translate(hierogram, raw_store, "in.hand", "--tokenized")
    assert translate(hierogram, raw_store, "in.raw", "--no-text") == tokens
    expected = BOTH.target.rules.join(tokens.split()) + "\n"
    assert "man, " in expected
    assert translate(hierogram, raw_store, "in.raw") == expected
    assert hierogram("--store", raw_store, "export", "-o", "g.cdec.gz").code == 0
    assert translate(hierogram, "g.cdec.gz", "in.raw") == expected
    (tmp_path / "bare.cdec.gz").write_bytes((tmp_path / "g.cdec.gz").read_bytes())
    assert translate(hierogram, "bare.cdec.gz", "in.raw", "--tokenize", "fr,en") == expected
    for grammar in (raw_store, "g.cdec.gz"):
        packed = ("--store", grammar) if grammar == raw_store else ("--grammar", grammar)
        assert hierogram("export", *packed, "-o", "g.packed", "--format", "packed").code == 0
        assert translate(hierogram, "g.packed", "in.raw") == expected
    assert hierogram("translate", "g.packed", "in.raw", "--tokenize", "en,fr").code == 2
    both = hierogram("translate", "g.packed", "in.raw", "--tokenize", "fr,en", "--tokenized")
    assert (both.code, "cannot be combined" in both.err) == (2, True)


@pytest.mark.slow
def test_language_model_of_raw_text_equals_a_model_of_its_tokens(
    hierogram: Run, raw_store: str, tmp_path: Path
) -> None:
    ways = {
        "hand.arpa": ("hand.en",),
        "language.arpa": ("raw.en", "--tokenize", "en"),
        "store.arpa": ("raw.en", "--store", raw_store),
        "chosen.arpa": ("hand.en", "--store", raw_store, "--tokenized"),
    }
    for output, arguments in ways.items():
        ran = hierogram("lm", *arguments, "-o", output)
        assert (ran.code, "the text seems to be" in ran.err) == (0, False)
    assert len({(tmp_path / output).read_bytes() for output in ways}) == 1
    assert hierogram("lm", "raw.en", "-o", "x.arpa", "--tokenize", "en", "--store", raw_store).code == 2


@pytest.mark.slow
def test_tuning_tokenizes_sentences_and_references(hierogram: Run, raw_store: str) -> None:
    rounds = []
    for kind, options in (("raw", ()), ("hand", ("--tokenized",))):
        texts = (f"{kind}.fr", "-r", f"{kind}.en")
        ran = hierogram("tune", raw_store, *texts, "-o", f"{kind}.toml", "--iterations", "1", "--json", *options)
        assert ran.code == 0, ran.err
        rounds.append(json.loads(ran.out)["rounds"][0])
    assert rounds[0] == rounds[1]
    assert rounds[0]["bleu"] > 50


@pytest.mark.slow
def test_aligning_raw_text_equals_aligning_its_tokens(hierogram: Run, raw_store: str, tmp_path: Path) -> None:
    expected = hierogram("align", "hand.fr", "hand.en", "--tokenized").out
    assert expected.count("\n") == len(RAW)
    assert hierogram("align", "raw.fr", "raw.en", "--tokenize", "fr,en").out == expected
    known = hierogram("align", "hand.fr", "hand.en", "--tokenized", "--store", raw_store)
    assert hierogram("align", "raw.fr", "raw.en", "--store", raw_store).out == known.out
    (tmp_path / "one").write_text("".join(f"{source} ||| {target}\n" for source, target in RAW))
    assert hierogram("align", "one", "--tokenize", "fr,en").out == expected
    (tmp_path / "two").write_text("a ||| b\na b\n")
    wrong = hierogram("align", "two")
    assert (wrong.code, ", line 2: expected source ||| target" in wrong.err) == (3, True)
    assert hierogram("align", "raw.fr", "raw.en", "one").code == 2


@pytest.mark.slow
def test_scores_and_filters_accept_raw_text(hierogram: Run, raw_store: str, tmp_path: Path) -> None:
    store = ("--store", raw_store)
    scores = [
        hierogram(*store, "score", f"{kind}.fr", f"{kind}.en", "--json", *options).out
        for kind, options in (("raw", ()), ("hand", ("--tokenized",)))
    ]
    assert scores[0] == scores[1] != ""
    assert hierogram(*store, "export", "-o", "all.cdec").code == 0
    assert hierogram(*store, "export", "-o", "some.cdec", "--filter-for", "in.raw").code == 0
    everything, some = (set((tmp_path / f"{name}.cdec").read_text().splitlines()) for name in ("all", "some"))
    matching = {rule for rule in everything if "[X" not in (side := rule.split(" ||| ")[1]) and side in DIVIDED}
    assert matching
    assert matching <= some < everything


NOTE = "the text seems to be running text"


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        lambda grammar: ("translate", grammar, "raw.fr"),
        lambda grammar: ("tune", grammar, "raw.fr", "-r", "hand.en", "-o", "w.toml", "--iterations", "1"),
        lambda _: ("lm", "raw.en", "-o", "x.arpa"),
        lambda _: ("align", "raw.fr", "hand.en"),
    ],
)
def test_untokenized_text_is_noted_once_by_every_interface(
    hierogram: Run, raw_store: str, tmp_path: Path, command: Callable[[str], tuple[str, ...]]
) -> None:
    assert hierogram("--store", raw_store, "export", "-o", "g.cdec").code == 0
    (tmp_path / "bare.cdec").write_bytes((tmp_path / "g.cdec").read_bytes())
    ran = hierogram(*command("bare.cdec"))
    assert (ran.code, ran.err.count(NOTE)) == (0, 1), ran.err
    assert NOTE not in hierogram(*command("bare.cdec"), "--tokenized").err


@pytest.mark.slow
def test_tokens_that_would_be_tokenized_again_are_noted(hierogram: Run, raw_store: str) -> None:
    ran = hierogram("translate", raw_store, "hand.fr")
    assert "hand.fr: the text seems to be tokenized: 4 of 4 lines have spaces before punctuation" in ran.err
    assert "use --tokenized to keep the tokens" in ran.err
    assert "seems to be tokenized" not in hierogram("translate", raw_store, "hand.fr", "--tokenized").err


def test_rules_are_found_by_raw_text(hierogram: Run, raw_store: str) -> None:
    def found(*arguments: str) -> list[tuple[str, str]]:
        ran = hierogram("--store", raw_store, "rules", "--json", *arguments)
        return [(rule["source"], rule["target"]) for rule in json.loads(ran.out)]

    assert found("--containing", "l'eau") == found("--containing", "l'", "eau") != []
    assert found("--target", "that's") == found("--target", "that 's")
    source = next(source for source, _ in found("--limit", "1000") if "l' " in source)
    assert found(source.replace("' ", "'")) == found(source) != []
    # The store has no rule with this word.
    assert found("l'or") == []


def test_evidence_for_a_prompt_is_detokenized(hierogram: Run, raw_store: str) -> None:
    def prompt(*arguments: str) -> str:
        ran = hierogram("--store", raw_store, "evidence", WANTED, "--format", "prompt", *arguments)
        assert ran.code == 0, ran.err
        return ran.out

    whole = prompt()
    assert "fr: L'homme boit l'eau.\nen: The man drinks the water.\n" in whole
    assert count_signs(whole.splitlines()).is_running is not False
    bounded = prompt("--characters", "200")
    assert not any(token in whole + bounded for token in ("l' eau", "L' eau", "L' homme"))
