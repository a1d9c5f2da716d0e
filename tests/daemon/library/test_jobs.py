"""The first commands of each documentation page have Python equivalents that are not longer."""

import ast
import re
from pathlib import Path
from typing import Any

import pytest
from tests.daemon.conftest import LINES

import hierogram as hg

pytestmark = pytest.mark.database("sqlite")

ROOT = Path(__file__).parents[3]
NEWS = 'store.add("news.fr", "news.en", "news.align")\nstore.learn(sweeps=4).run()\n'

PAGES: dict[str, tuple[str, str]] = {
    "alignment": ("", """
store.add("news.fr", "news.en")
store.learn().run()
links = list(hg.align("more.fr", "more.en", priors=store))
"""),
    "corpora": ("", """
store.add("news.fr", "news.en", "news.align")
french = hg.open("french.db", create=True, languages=("fr", "en"), tokenize=True)
french.add("news.fr", "news.en")
"""),
    "decoding": (NEWS, """
store.export("grammar.cdec.gz")
hg.lm("english.txt", "english.lm")
texts = [found.text for found in hg.Decoder("grammar.cdec.gz", lm="english.lm").translate_all(sentences)]
again = [found.text for found in hg.Decoder(store, lm="english.lm").translate_all(sentences)]
"""),
    "evaluation": ("", """
hg.evaluate(["old.en", "new.en"], "test.en")
hg.evaluate("new.en", ["test.en", "test2.en"], tokenizer="none", metrics=("bleu", "chrf"))
"""),
    "events": (NEWS + 'store.export("grammar.cdec")\n', """
found = store.events().events
news = store.events(after=2, kinds=("rule-added", "rule-removed", "rule-updated")).events
store.store.set_event_limit(500_000)
"""),
    "evidence": (NEWS, """
rules = hg.evidence(store, "elle ne vient pas à la maison").rules
pairs = hg.evidence(store, "elle ne vient pas à la maison", pairs=3).pairs
found = hg.evidence(store, "elle ne vient pas à la maison")
"""),
    "exports": (NEWS, """
store.export("grammar.cdec.gz")
store.export("rules.gz", format="moses", max_scope=2, hiero=True)
store.export("grammar.jsonl.zst", format="jsonl", min_count=0.5, per_source=20)
store.publish("grammars", "news", format="moses", keep=7)
"""),
    "itg": ("", """
itg = hg.open("itg.db", create=True, grammar="itg")
itg.add("news.fr", "news.en")
itg.learn(sweeps=4).run()
table = itg.rules("maison")
itg.export("dictionary.tsv.gz")
"""),
    "language_models": ("", """
hg.lm("news.en", "news.lm")
hg.lm(["news.en", "more.en"], ["news5.lm", "news5.arpa.gz"], order=5, max_words=100000)
"""),
    "small_languages": ("", """
small = hg.open("small.db", create=True, languages=("fr", "en"), tokenize=True)
small.add("news.fr", "news.en")
small.learn().run()
"""),
    "scores": (NEWS, """
scored = list(hg.score(store))
doubtful = [one for one in scored if one.score.evidence < 0]
strange = [one for one in doubtful if one.score.source_misfit and one.score.source_misfit.log_odds > 3]
two = list(hg.score(store, ids=[3, 5]))
kept = list(hg.score(store, keep=True))
rows = store.store.scores()
"""),
    "terms": (NEWS, """
terms = hg.terms(store)
more = hg.terms(store, top=200, min_count=2)
single = hg.terms(store, corpus="default", min_words=1)
departures = hg.terms(store, departures=5).departures
glossary = hg.terms(store, top=100000, min_words=1, consistency=0.9).terms
"""),
    "trees": ("trees = hg.open('trees.db', create=True, grammar='trees', annealing=5)\n", """
trees.add("trees.mrg")
trees.learn(sweeps=10).run()
parsed = hg.parse("sentences.txt", trees)
(folder / "sentences.trees").write_text("".join(one.tree + "\\n" for one in parsed))
"""),
    "tuning": (NEWS + 'store.export("grammar.cdec")\n', """
hg.lm("dev.en", "news.lm")
hg.tune("grammar.cdec", "dev.fr", "dev.en", "weights.toml", translate=hg.TranslateOptions(lm="news.lm"), iterations=1)
translated = hg.Decoder("grammar.cdec", lm="news.lm", weights="weights.toml").translate("la maison").text
"""),
}  # fmt: skip
"""By page: Python code that prepares the store, and the page's first commands in Python."""

TREES = ["(S (NP (DT the) (NN cat)) (VP (VBZ sleeps)))", "(S (NP (DT a) (NN dog)) (VP (VBZ sleeps)))"] * 2


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Current folder with all files that the Python code reads."""
    monkeypatch.chdir(tmp_path)
    sources, targets, links = zip(*(line.split(" ||| ") for line in LINES), strict=True)
    files: dict[str, Any] = {"news.align": links, "trees.mrg": TREES, "gold.mrg": TREES}
    files |= dict.fromkeys(("news.fr", "more.fr", "dev.fr", "test.fr"), sources)
    files |= dict.fromkeys(("news.en", "more.en", "dev.en", "test.en", "test2.en", "english.txt"), targets)
    files |= {"new.en": targets, "old.en": targets[::-1], "sentences.txt": ["the dog sleeps"]}
    for name, lines in files.items():
        (tmp_path / name).write_text("".join(line + "\n" for line in lines))
    return tmp_path


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES)
def test_python_equivalents_of_the_first_commands_of_a_page_work_and_are_not_longer(
    page: str, folder: Path, store_url: str
) -> None:
    before, job = PAGES[page]
    [shown, *_] = re.findall(r"```sh\n(.*?)```", (ROOT / "docs" / f"{page}.md").read_text(), re.DOTALL)
    assert len(ast.parse(job).body) <= len(shown.splitlines())
    with hg.open(store_url, create=True) as store:
        names: dict[str, Any] = {"hg": hg, "store": store, "folder": folder, "sentences": ["la maison", "une fleur"]}
        exec(before + job, names)
    for name, found in names.items():
        if isinstance(found, list):
            assert found or name in ("doubtful", "strange", "departures", "glossary", "news"), name
        elif isinstance(found, hg.GrammarStore):
            assert found is store or found.status().pairs
            found.close()


def test_shell_commands_of_every_page_covered_by_the_library_have_a_python_equivalent() -> None:
    with_commands = {
        path.stem for path in (ROOT / "docs").glob("*.md") if re.search(r"```sh\nhierogram", path.read_text())
    }
    # Daemons, web pages, comparisons, measurements and lists of options are not in the library; SQL uses `query`.
    pages = "comparison daemon glossary http integrations model options pages papers performance sql"
    assert with_commands - set(pages.split()) == PAGES.keys()
