"""A script that uses the library passes mypy's strict checks."""

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
        store.export("grammar.cdec.gz", options=hg.ExportOptions(max_scope=2))
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


def check(script: str, folder: Path) -> subprocess.CompletedProcess[str]:
    (folder / "script.py").write_text(script)
    # Configured as at a user's, who has the package installed: it is found by the links of this clone.
    (folder / "mypy.ini").write_text(f"[mypy]\nstrict = true\nmypy_path = {ROOT / '.imports'}\n")
    arguments = [sys.executable, "-m", "mypy", "--follow-imports=silent", "--no-incremental", "script.py"]
    return subprocess.run(arguments, cwd=folder, capture_output=True, text=True)


@pytest.mark.campaign
def test_a_users_script_is_checked(tmp_path: Path) -> None:
    found = check(SCRIPT, tmp_path)
    assert found.returncode == 0, found.stdout + found.stderr
    wrong = check(SCRIPT.replace("accepted: int", "accepted: str").replace("text: str", "text: int"), tmp_path)
    assert wrong.stdout.count("error: Incompatible types") == 2, wrong.stdout
