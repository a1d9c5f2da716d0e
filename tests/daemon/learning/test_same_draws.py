"""The samplers draw the same values as before: digests of counts, derivations and links are stored next to this module.

`HIEROGRAM_WRITE_DIGESTS=1 pytest tests/daemon/learning/test_same_draws.py` updates them. Do that only if the draws
are meant to change, and say so in the commit.
"""

import hashlib
import json
import os
import random
import sqlite3
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from tests.daemon.conftest import Run

from hierogram.storage.records.settings import Settings
from hierogram.storage.store import open_store

DIGESTS = Path(__file__).with_name("same_draws.json")


def words(random_: random.Random, language: str, size: int) -> list[str]:
    return [f"{language}{int(random_.paretovariate(0.7)) % 400}" for _ in range(size)]


def bitext(seed: int, pairs: int) -> Iterable[tuple[str, str, str]]:
    """Yield pairs of 1 to 14 source words. About 85 % of the source words have a link, near the diagonal."""
    random_ = random.Random(seed)
    for _ in range(pairs):
        source = words(random_, "f", random_.randint(1, 14))
        target = words(random_, "e", max(1, len(source) + random_.randint(-2, 2)))
        links = {
            (i, min(len(target) - 1, max(0, i + random_.choice((0, 0, 0, 0, 1, -1)))))
            for i in range(len(source))
            if random_.random() < 0.85
        }
        yield " ".join(source), " ".join(target), " ".join(f"{i}-{j}" for i, j in sorted(links))


def bars(path: Path, seed: int, pairs: int) -> str:
    path.write_text("".join(f"{s} ||| {t} ||| {a}\n" for s, t, a in bitext(seed, pairs)))
    return str(path)


def tree(random_: random.Random, depth: int) -> str:
    label = random_.choice(("S", "NP", "VP", "PP"))
    if depth == 0 or random_.random() < 0.2:
        return f"({label} w{int(random_.paretovariate(0.8)) % 40})"
    return f"({label} {' '.join(tree(random_, depth - 1) for _ in range(random_.randint(1, 3)))})"


def trees(path: Path, seed: int, count: int) -> str:
    random_ = random.Random(seed)
    path.write_text("".join(tree(random_, 4) + "\n" for _ in range(count)))
    return str(path)


FOREST = "(S (| #1=(NP (PRP she)) (VP (VBD saw) (NP (PRP$ her) (NN duck)))) (| (#1) (VP (VBD saw) (NP her) (VB duck))))"


def store_digest(path: Path) -> dict[str, str]:
    """Return digests of the rules in use, the derivations and the pairs, independent of rule ids and averages."""
    connection = sqlite3.connect(path)
    queries = {
        "rules": "SELECT source, target, length, scope, nonterminals, hiero, count FROM rules"
        " WHERE count > 0 ORDER BY source, target",
        "derivations": "SELECT pair_id, current FROM derivations ORDER BY pair_id",
        "pairs": "SELECT id, alignment, state, stage, sweep FROM sentence_pairs ORDER BY id",
    }
    found = {}
    for name, query in queries.items():
        digest = hashlib.blake2b(digest_size=16)
        rows = 0
        for row in connection.execute(query):
            digest.update(repr(row).encode())
            rows += 1
        assert rows, f"{path}: no {name}"
        found[name] = digest.hexdigest()
    connection.close()
    return found


def learn_and_digest(run: Run, folder: Path, settings: Settings, ingest: list[str], sweeps: str) -> dict[str, str]:
    path = folder / "store.db"
    store = ["--store", f"sqlite:///{path}"]
    open_store(store[1], create=True, settings=settings).close()
    for command in (["ingest", *ingest], ["learn", "--sweeps", sweeps, "--threads", "2"]):
        ran = run(*store, *command)
        assert ran.code == 0, ran.err
    return store_digest(path)


def case_phrases(run: Run, folder: Path) -> dict[str, str]:
    return learn_and_digest(
        run, folder, Settings(seed=3, schedule="paper"), [bars(folder / "c.bars", 1, 400), "--format", "pipes"], "12"
    )


def case_phrases_in_blocks(run: Run, folder: Path) -> dict[str, str]:
    settings = Settings(schedule="paper", sweeps_per_level=2, levels=4, round_sweeps=3)
    return learn_and_digest(run, folder, settings, [bars(folder / "c.bars", 2, 2500), "--format", "pipes"], "9")


def case_phrases_dirichlet(run: Run, folder: Path) -> dict[str, str]:
    settings = Settings(model="dirichlet", strength=100, span_limit=0, schedule="paper", sweeps_per_level=3)
    return learn_and_digest(run, folder, settings, [bars(folder / "c.bars", 3, 200), "--format", "pipes"], "8")


def case_unaligned_pairs(run: Run, folder: Path) -> dict[str, str]:
    (folder / "c.f").write_text("".join(s + "\n" for s, _, _ in bitext(4, 150)))
    (folder / "c.e").write_text("".join(t + "\n" for _, t, _ in bitext(4, 150)))
    settings = Settings(schedule="paper", sweeps_per_level=2, levels=3)
    return learn_and_digest(run, folder, settings, [str(folder / "c.f"), str(folder / "c.e")], "5")


def case_trees(run: Run, folder: Path) -> dict[str, str]:
    settings = Settings(grammar="trees", annealing=20, round_sweeps=5, temperature=3.0)
    return learn_and_digest(run, folder, settings, ["--trees", trees(folder / "t.mrg", 5, 150)], "20")


def case_trees_uniform_base(run: Run, folder: Path) -> dict[str, str]:
    settings = Settings(grammar="trees", base="uniform", start="random", annealing=10, seed=9)
    return learn_and_digest(run, folder, settings, ["--trees", trees(folder / "t.mrg", 6, 60)], "15")


def case_packed_forests(run: Run, folder: Path) -> dict[str, str]:
    path = folder / "t.mrg"
    path.write_text("".join(FOREST.replace("duck", word) + "\n" for word in ("duck", "dog", "duck", "swan", "duck")))
    settings = Settings(grammar="trees", annealing=10, start="cut")
    return learn_and_digest(run, folder, settings, ["--trees", str(path)], "30")


def aligned(model: str) -> Callable[[Run, Path], dict[str, str]]:
    def case(run: Run, folder: Path) -> dict[str, str]:
        (folder / "c.f").write_text("".join(s + "\n" for s, _, _ in bitext(7, 200)))
        (folder / "c.e").write_text("".join(t + "\n" for _, t, _ in bitext(7, 200)))
        out = folder / "links"
        ran = run(
            *("align", str(folder / "c.f"), str(folder / "c.e"), "-o", str(out), "--model", model),
            *("--sweeps", "50", "--score", "--seed", "11", "--threads", "2", "--symmetrize", "posterior"),
        )
        assert ran.code == 0, ran.err
        return {"links": hashlib.blake2b(out.read_bytes(), digest_size=16).hexdigest()}

    return case


CASES = {
    "phrases": case_phrases,
    "phrases in blocks": case_phrases_in_blocks,
    "phrases, Dirichlet process": case_phrases_dirichlet,
    "unaligned pairs": case_unaligned_pairs,
    "trees": case_trees,
    "trees, uniform base": case_trees_uniform_base,
    "packed forests": case_packed_forests,
    "links, bhmm": aligned("bhmm"),
    "links, bhmm-z": aligned("bhmm-z"),
    "links, bhmm-f": aligned("bhmm-f"),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_digests_of_sampled_values_are_unchanged(name: str, hierogram: Run, tmp_path: Path) -> None:
    found = CASES[name](hierogram, tmp_path)
    known = json.loads(DIGESTS.read_text()) if DIGESTS.exists() else {}
    if os.environ.get("HIEROGRAM_WRITE_DIGESTS"):
        DIGESTS.write_text(json.dumps(known | {name: found}, indent=1, sort_keys=True) + "\n")
        return
    assert found == known[name]
