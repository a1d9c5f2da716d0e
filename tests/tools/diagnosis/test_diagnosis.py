"""Diagnosis of chains over a store, which leaves the store unchanged."""

import json
from pathlib import Path

import numpy as np
import pytest
from tests.daemon.conftest import Run, create_learned_store
from tests.daemon.learning.treebanks import QUICK as QUICK_TREES
from tests.daemon.learning.treebanks import TREES, put

from hierogram.samplers.diagnostics.convergence import APART, CONSTANT, DRIFTING, SOUND, STUCK
from hierogram.samplers.diagnostics.overlap import KEY, GrammarCounts
from hierogram.storage.store import open_store
from hierogram.tools.diagnosis.chains import ChainDraws, LinkDraws, run_chains
from hierogram.tools.diagnosis.diagnosis import summarize_chains
from hierogram.tools.diagnosis.options import ChainOptions

STORE = "sqlite:///hierogram.db"
FEW = ("--chains", "3", "--sweeps", "80")


def counts_in(path: Path) -> bytes:
    with open_store(f"sqlite:///{path}") as store:
        return repr((store.status(), store.pairs())).encode()


@pytest.mark.slow
def test_diagnose_reports_chains_and_leaves_the_store_unchanged(hierogram: Run, corpus: Path, tmp_path: Path) -> None:
    create_learned_store(STORE, corpus)
    before = counts_in(tmp_path / "hierogram.db")
    result = hierogram("diagnose", *FEW, "--json", "--draws", "kept.npz", "--plot", "chains.png")
    assert result.code in (0, 1), result.err
    found = json.loads(result.out)
    assert found["starts"] == ["cut", "joined", "random"]
    assert (found["chains"], found["draws"]) == (3, 40)
    assert [one["name"] for one in found["totals"]] == ["log_likelihood", "rule_tokens", "rule_types"]
    assert found["rules"]["recorded"] > 20
    assert sum(found["rules"]["verdicts"].values()) == found["rules"]["recorded"]
    assert 0 < found["overlap"]["single_draws"]["uses"] <= found["overlap"]["means"]["uses"] <= 1
    assert (tmp_path / "chains.png").read_bytes().startswith(b"\x89PNG")
    assert (result.code == 1) == bool(found["flagged"])
    assert counts_in(tmp_path / "hierogram.db") == before

    with np.load(tmp_path / "kept.npz") as kept:
        assert kept["draws"].shape == (3 + found["rules"]["recorded"], 3, 40)
        assert kept["starts"].tolist() == found["starts"]
    shown = hierogram("diagnose", *FEW).out
    assert "overlap of two chains, means" in shown
    assert "log_likelihood" in shown


def test_a_store_without_pairs_is_not_diagnosed(hierogram: Run) -> None:
    assert hierogram("init").code == 0
    assert "no aligned pairs" in hierogram("diagnose").err


def test_chains_are_reproducible_and_record_counts_of_rules(hierogram: Run, corpus: Path, tmp_path: Path) -> None:
    create_learned_store(STORE, corpus)
    with open_store(f"sqlite:///{tmp_path / 'hierogram.db'}") as store:
        taken = run_chains(store, ChainOptions(chains=2, sweeps=30))
        same = run_chains(store, ChainOptions(chains=2, sweeps=30))
    assert (taken.draws == same.draws).all()
    tokens, counts = taken.draws[1], taken.draws[3:]
    # Rules may appear after the recorded rules are chosen, so the counts may sum to less.
    assert (counts.sum(axis=0) <= tokens).all()
    assert len(set(zip(taken.sources, taken.targets, strict=True))) == len(taken.sources) == len(counts)
    for grammar, chain_tokens in zip(taken.last, tokens, strict=True):
        assert grammar.uses.sum() == chain_tokens[-1]


@pytest.mark.slow
def test_chains_over_a_treebank_are_diagnosed(store_url: str) -> None:
    with open_store(store_url, create=True, settings=QUICK_TREES) as store:
        put(store, TREES)
        found = summarize_chains(run_chains(store, ChainOptions(chains=2, sweeps=40)))
    assert found.rules.recorded > 5
    assert all(one.mean is not None for one in found.totals)


UNALIGNED = [("la maison bleue", "the blue house"), ("la fleur", "the flower"), ("une maison", "a house")] * 4


def test_aligner_chains_over_pairs_aligned_by_the_store_are_diagnosed(hierogram: Run, tmp_path: Path) -> None:
    (tmp_path / "few.tsv").write_text("".join(f"{source}\t{target}\n" for source, target in UNALIGNED))
    for command in (["init"], ["ingest", "few.tsv"], ["learn", "--sweeps", "2"]):
        assert hierogram(*command).code == 0
    options = ("--chains", "3", "--sweeps", "120")
    found = json.loads(hierogram("diagnose", *options, "--draws", "kept.npz", "--json").out)
    with np.load(tmp_path / "kept.npz") as kept:
        draws, names = kept["link_draws"], kept["link_names"].tolist()
    assert draws.shape == (found["links"]["recorded"], 3, 60)
    assert len(names) > 20
    assert sum(found["links"]["verdicts"].values()) == len(names) == len(set(names))
    assert set(np.unique(draws).tolist()) == {0, 1}
    # An unambiguous link is present in more than half of the draws.
    shares = dict(zip(names, draws.mean(axis=(1, 2)).tolist(), strict=True))
    sure = [share for name, share in shares.items() if name.startswith("fleur - flower, 1-1 of")]
    assert np.median(sure) > 0.5
    assert "aligned links: " in hierogram("diagnose", *options).out


def test_pairs_with_given_links_have_no_aligner_chains(hierogram: Run, corpus: Path, tmp_path: Path) -> None:
    create_learned_store(STORE, corpus)
    with open_store(f"sqlite:///{tmp_path / 'hierogram.db'}") as store:
        taken = run_chains(store, ChainOptions(chains=2, sweeps=10))
    assert not taken.links.names
    assert summarize_chains(taken).links.recorded == 0


def test_links_on_which_chains_disagree_or_drift_are_listed_first() -> None:
    random = np.random.default_rng(3)
    apart = np.repeat([[0.0], [1.0], [0.0], [1.0]], 150, axis=1)
    sound = random.integers(0, 2, (4, 150)).astype(np.float64)
    drifting = (np.arange(150) + random.integers(-40, 40, (4, 150)) > 75).astype(np.float64)
    names = ["a - b", "c - d", "e - f"]
    taken = make_draws(NOISE)._replace(links=LinkDraws(np.stack([apart, sound, drifting]), names, 1.0))
    found = summarize_chains(taken)
    assert found.links.verdicts == {SOUND: 1, APART: 1, DRIFTING: 1}
    assert [one.name for one in found.links.largest_r_hat[:2]] == ["a - b", "e - f"]
    assert found.seconds == 3.0


def make_draws(likelihood: np.ndarray) -> ChainDraws:
    random = np.random.default_rng(1)
    chains, draws = likelihood.shape
    rest = random.normal(size=(3, chains, draws))
    keys = np.zeros(1, KEY)
    grammar = GrammarCounts(keys, np.ones(1))
    return ChainDraws(
        np.concatenate((likelihood[None], rest)), ["f"], ["e"], ["cut"] * chains, [grammar] * chains,
        [grammar] * chains, 2.0,
    )  # fmt: skip


NOISE = np.random.default_rng(2).normal(size=(4, 150))


@pytest.mark.parametrize(
    ("likelihood", "verdict"),
    [
        (NOISE, SOUND),
        (NOISE + np.linspace(0, 4, 150), DRIFTING),
        (NOISE + np.array([[0], [0], [7], [7]]), APART),
        (NOISE * np.array([[1], [1], [1], [0]]), STUCK),
        (np.zeros((4, 150)), CONSTANT),
    ],
)
def test_unreliable_totals_are_flagged(likelihood: np.ndarray, verdict: str) -> None:
    found = summarize_chains(make_draws(likelihood))
    assert found.totals[0].verdict == verdict
    assert found.flagged == (["log_likelihood"] if verdict in (DRIFTING, APART, STUCK) else [])
    assert (found.totals[0].r_hat is None) == (verdict == CONSTANT)
    assert found.ess_per_second is not None


def test_r_hat_is_capped_at_a_million_but_mean_and_deviation_are_not() -> None:
    constant = np.repeat([[1e7], [2e7]], 40, axis=1)
    total = summarize_chains(make_draws(constant)).totals[0]
    assert total.mean == pytest.approx(1.5e7)
    assert total.sd is not None
    assert total.sd > 1e6
    assert total.r_hat == 1e6


def test_diagnosis_works_without_recorded_rules(hierogram: Run, corpus: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    create_learned_store(STORE, corpus)
    monkeypatch.setattr("hierogram.tools.diagnosis.chains._MAX_RECORDED_RULES", 0)
    result = hierogram("diagnose", *FEW, "--json")
    assert result.code in (0, 1), result.err
    found = json.loads(result.out)
    assert (found["rules"]["recorded"], found["rules"]["largest_r_hat"]) == (0, [])
    assert len(found["totals"]) == 3
