"""Mypy checks user scripts strictly, including option names."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
SCRIPT = """
from collections.abc import Iterable

import hierogram as hg


def best(url: str, pairs: Iterable[tuple[str, str]]) -> list[str]:
    with hg.open(url, create=True, languages=("fr", "en")) as store:
        accepted: int = store.add(pairs, corpus="news").totals.accepted
        for sweep in store.learn(sweeps=accepted):
            likelihood: float | None = sweep.log_likelihood
            print(likelihood)
        table: hg.RuleTable = store.rules(source="maison", limit=5)
        store.export("grammar.cdec.gz", max_scope=2, compression="gzip")
        return [rule.target for rule in table]


def research(pairs: list[tuple[str, str, str]]) -> float:
    with hg.sample(pairs, model=hg.PitmanYor(discount=0.4), schedule=hg.Annealing(10, 3.0)) as chain:
        return sum(done.seconds for done in chain.run(5).trace)


links: list[list[tuple[int, int, float]]] = list(hg.align(["a"], ["b"]))
text: str = hg.Decoder("grammar.cdec.gz").translate("la maison").text
try:
    best("news.db", [("la", "the")])
except (hg.StoreError, hg.InputError) as error:
    print(error, hg.__version__)
"""


TYPOS = """
import hierogram as hg

store = hg.open("a.db", create=True, lenguages=("fr", "en"))
store.export("g", max_scoop=2)
store.publish("g", max_scoop=2)
hg.terms(store, min_worts=2)
hg.evidence(store, "la", pears=2)
hg.diagnose(store, chain=2)
hg.score(store, tokenised=True)
hg.align(["a"], ["b"], sweep=2)
hg.Decoder(store, pop=2)
hg.parse(["a"], store, methods="mpd")
hg.lm("a", "b", oder=2)
hg.evaluate("a", "b", metric=("bleu",))
hg.tune(store, "a", "b", "c", iteration=2)
store.export("g", max_scope="2")
"""


def check(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    (folder / "script.py").write_text(script)
    # Users have the package installed; here it is found through the links of this clone. The cache saves a minute.
    (folder / "mypy.ini").write_text(
        f"[mypy]\nstrict = true\nmypy_path = {ROOT / '.imports'}\ncache_dir = {ROOT / '.mypy_cache' / 'users'}\n"
    )
    arguments = [sys.executable, "-m", "mypy", "--follow-imports=silent", "script.py"]
    return subprocess.run(arguments, cwd=folder, capture_output=True, text=True)


@pytest.mark.slow
def test_mypy_checks_types_in_a_user_script(tmp_path: Path) -> None:
    found = check(SCRIPT, tmp_path)
    assert found.returncode == 0, found.stdout + found.stderr
    wrong = check(SCRIPT.replace("accepted: int", "accepted: str").replace("text: str", "text: int"), tmp_path)
    assert wrong.stdout.count("error: Incompatible types") == 2, wrong.stdout


@pytest.mark.slow
def test_mypy_reports_every_misspelled_option_and_an_option_of_a_wrong_type(tmp_path: Path) -> None:
    found = check(TYPOS, tmp_path)
    lines = {int(line.split(":")[1]) for line in found.stdout.splitlines() if ": error: " in line}
    assert lines == set(range(4, 4 + TYPOS.count("\n") - 3)), found.stdout
