"""Pairs added without an alignment are aligned with the store's counts, and the store stays consistent."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs
from tests.daemon.conftest import QUICK, Run, make_store
from tests.daemon.learning.alignment.arrivals import PAIRS, error_rate, put, texts
from tests.daemon.learning.alignment.languages import invented_corpus
from tests.daemon.serving.turns import ManualTurns
from tests.storage.building import aligner_counts, query

from hierogram.daemon.learning.alignment.incremental import (
    AlignReport,
    IncrementalAligner,
    align_pending,
    is_material_change,
)
from hierogram.daemon.learning.learner import Learner, ResidentBatch
from hierogram.daemon.learning.learning import learn
from hierogram.daemon.learning.stored_links import make_withdrawal
from hierogram.daemon.learning.verifying import verify
from hierogram.samplers.grammar.columns import split_blobs
from hierogram.storage.records.aligner import AlignerCounts
from hierogram.storage.records.pairs import PairRow
from hierogram.storage.store import Store, open_store


@pytest.fixture
def store(store_url: str) -> Iterator[Store]:
    with open_store(store_url, create=True, settings=QUICK) as opened:
        yield opened


def test_new_pairs_are_aligned_with_the_store_s_counts(store: Store) -> None:
    put(store, 0, 270)
    assert align_pending(store).pairs == 270
    assert error_rate(store, 0, 270) < 0.1
    put(store, 270, PAIRS)
    reports: list[tuple[int, int]] = []
    done = align_pending(store, report=lambda now, total: reports.append((now, total)))
    assert (done.pairs, done.realigned, done.trained) == (30, 0, 0)
    assert error_rate(store, 270, PAIRS) < 0.1
    assert reports[-1] == (30, 30)
    assert {(state, by) for _, state, by in texts(store)} == {("waiting", "aligner")}
    for row in store.pairs():
        stored = [float(probability) for probability in (row.link_probabilities or "").split()]
        assert len(stored) == len(row.alignment.split())
        assert all(0.2 <= probability <= 1 for probability in stored)
    assert verify(store).problems == []
    assert align_pending(store) == AlignReport(0, 0, 0, 0, pytest.approx(0, abs=5))


def test_a_few_new_pairs_are_aligned_with_the_counts_of_given_alignments(store: Store) -> None:
    put(store, 0, 250, given=True)
    before = texts(store)
    put(store, 250, 251)
    put(store, 251, 260)
    aligner = IncrementalAligner(store)
    assert aligner.align_new(limit=1) == 1
    assert [state for _, state, _ in texts(store)].count("unaligned") == 9
    assert aligner.align_new() == 9
    assert texts(store)[:250] == before
    assert error_rate(store, 250, 260) < 0.1
    assert verify(store).problems == []
    put(store, 260, 262, given=True)
    put(store, 262, 263)
    assert len(store.uncounted_alignments(0, 9)) == 2
    assert align_pending(store).trained == 2
    assert store.uncounted_alignments(0, 9) == []


def test_incremental_links_do_not_depend_on_threads(tmp_path: Path) -> None:
    found = []
    for threads in (1, 2):
        with open_store(f"sqlite:///{tmp_path}/{threads}.db", create=True, settings=QUICK) as store:
            put(store, 0, 60)
            align_pending(store, threads)
            put(store, 60, 70)
            align_pending(store, threads)
            found.append(texts(store))
    assert found[0] == found[1]


@pytest.mark.slow
def test_derivations_of_realigned_pairs_are_resampled(store: Store, store_url: str) -> None:
    put(store, 0, 120)
    align_pending(store)
    learn(store, sweeps=2)
    # Store wrong alignments with matching derivations and counts; realigning repairs both.
    query(store_url, "UPDATE sentence_pairs SET alignment = '' WHERE id <= 3")
    reset_derivations(store_url)
    learn(store, sweeps=2)
    assert verify(store).problems == []
    [again] = IncrementalAligner(store).realign_stale(PAIRS)
    assert again.pairs == 120
    assert again.changed >= 3
    assert again.rebuilt is not None
    assert {1, 2, 3} <= {row.id for row in again.rebuilt.before.rows}
    aligned = [row for row in store.pairs() if row.id <= 3]
    assert [len((row.link_probabilities or "").split()) for row in aligned] == [
        len(row.alignment.split()) for row in aligned
    ]
    assert [row.state for row in store.pairs(limit=3)] == ["sampling"] * 3
    assert verify(store).problems == []
    assert error_rate(store, 0, 3) < 0.2
    # The new derivations are drawn from other random streams than the first ones.
    assert query(store_url, "SELECT restarts FROM schedule_restarts WHERE pair_id <= 3") == [(1,)] * 3
    rows = store.pairs(limit=3)
    assert [row.current for row in rows] == initial_derivations(store, rows)
    assert [row.current for row in rows] != initial_derivations(store, [row._replace(restarts=0) for row in rows])
    learn(store, sweeps=1)
    assert store.count_pairs(["settled"]) == 120
    assert verify(store).problems == []


def initial_derivations(store: Store, rows: list[PairRow]) -> list[bytes]:
    batch = ResidentBatch.from_rows(
        [row._replace(state="waiting", current=None, averages=None, checksum=None) for row in rows], store.settings()
    )
    return split_blobs(batch.loaded.encode(batch.state))


def test_realignment_updates_the_rule_counts_of_a_learner(store: Store, store_url: str) -> None:
    put(store, 0, 60)
    align_pending(store)
    # Learn derivations of a different alignment, which realignment replaces.
    query(store_url, "UPDATE sentence_pairs SET alignment = '0-0' WHERE id <= 4")
    learn(store, sweeps=0)
    with Learner(store) as learner:
        [again] = IncrementalAligner(store).realign_stale(PAIRS)
        assert again.rebuilt is not None
        again.rebuilt.apply_to(learner.chain)
        with Learner(store) as fresh:
            assert fresh.chain.rule_tokens == learner.chain.rule_tokens
            assert fresh.measure() == pytest.approx(learner.measure(), rel=1e-12)


def test_aligner_counts_of_withdrawn_pairs_are_removed(store: Store) -> None:
    put(store, 0, 40)
    align_pending(store)
    assert aligner_counts(store).lexicon
    everything = [row.id for row in store.pairs()]
    store.commit_alignments(make_withdrawal(store, everything))
    assert aligner_counts(store) == AlignerCounts([], [], [])


def test_verify_reports_wrong_counts_of_the_aligner(store: Store, store_url: str) -> None:
    put(store, 0, 40)
    align_pending(store)
    assert verify(store).problems == []
    query(store_url, "UPDATE aligner_jumps SET count = count + 1 WHERE direction = 'forward' AND width = 1")
    query(store_url, "DELETE FROM aligner_words WHERE side = 'target' AND word <> ''")
    found = "\n".join(verify(store).problems)
    assert "aligner: the count of 'jump' 'forward' 1 is" in found
    assert "'fertility_1' is 0, but should be" in found
    query(store_url, "DELETE FROM pair_links WHERE pair_id = 5")
    assert any("no row in the table pair_links: 5" in problem for problem in verify(store).problems)


def test_change_of_ten_percent_of_links_is_material() -> None:
    line = " ".join(f"{k}-{k}" for k in range(20))
    assert not is_material_change(line, line)
    assert not is_material_change(line, line.removesuffix(" 19-19"))
    assert is_material_change(line, line.replace("0-0", "0-1", 1).replace("5-5", "5-6"))
    assert is_material_change("", "0-0")
    assert not is_material_change("", "")


def test_learn_command_aligns_new_pairs_first(hierogram: Run, tmp_path: Path) -> None:
    sources, targets, _ = invented_corpus(60)
    for name, lines in (("src", sources), ("tgt", targets)):
        (tmp_path / name).write_text("".join(line + "\n" for line in lines))
    make_store(schedule="paper", sweeps_per_level=2, levels=2)
    assert "60 pairs stored" in hierogram("ingest", "src", "tgt").out
    learned = hierogram("learn", "--sweeps", "1")
    assert learned.code == 0
    assert "60 pairs aligned in" in learned.out
    again = json.loads(hierogram("learn", "--sweeps", "0", "--json").out)
    assert again["aligned"]["pairs"] == 0
    assert again["pairs"] == 60
    assert hierogram("verify").code == 0


def test_daemon_turns_align_sample_and_realign_pairs(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/store.db"
    with open_store(url, create=True, settings=QUICK) as store:
        put(store, 0, 60)
        with ManualTurns(store) as turns:
            started = turns.heart.last
            turns.stop.set()
            assert not turns.turns.run_turn()
            assert store.count_pairs(["unaligned"]) == 60
            turns.stop.clear()
            while store.count_pairs(["settled"]) < 60:
                assert turns.turns.run_turn()
            assert turns.heart.last > started
            # Store wrong alignments, as if the pairs had been aligned on arrival with few counts.
            query(url, "UPDATE sentence_pairs SET alignment = '0-0' WHERE id <= 3")
            query(url, "UPDATE pair_links SET sweep = 1")
        reset_derivations(url)
        learn(store, sweeps=0)
        with ManualTurns(store) as turns:
            turns.turns.run_turn()
            assert [row.alignment for row in store.pairs(limit=3)] != ["0-0"] * 3
            while store.count_pairs(["settled"]) < 60:
                assert turns.turns.run_turn()
            with Learner(store) as fresh:
                assert fresh.measure() == pytest.approx(turns.learner.measure(), rel=1e-12)
        assert verify(store).problems == []


def test_the_daemon_realigns_pairs_after_many_arrivals(store: Store) -> None:
    aligner = IncrementalAligner(store)
    with capture_logs() as logs, ManualTurns(store) as turns:
        for first, last in ((0, 60), (60, 80), (80, 81)):
            put(store, first, last)
            aligner.align_new()
            turns.turns.realign_stale()
        turns.turns.realign_stale()
    # Pairs are re-aligned if more than a quarter of them are new: 21 of 81, but not 20 of 80.
    assert [(entry["event"], entry["pairs"]) for entry in logs] == [("pairs re-aligned", 81)]
    assert verify(store).problems == []


@pytest.mark.slow
@pytest.mark.database("sqlite")
def test_a_growing_store_is_realigned_as_a_whole(store: Store) -> None:
    done = []
    for first in range(0, PAIRS, 60):
        put(store, first, first + 60)
        done.append(align_pending(store))
    # New pairs since the last realignment: 60 of 120, 60 of 180, 60 of 240 (too few), 120 of 300.
    assert [report.realigned for report in done] == [0, 120, 180, 0, 300]
    assert error_rate(store, 0, PAIRS) < 0.05
    assert verify(store).problems == []


@pytest.mark.database("sqlite")
def test_pairs_in_burn_in_are_not_realigned(store: Store, store_url: str) -> None:
    put(store, 0, 60)
    align_pending(store)
    put(store, 60, 120)
    aligner = IncrementalAligner(store)
    aligner.align_new()
    query(store_url, "UPDATE sentence_pairs SET state = 'sampling' WHERE id > 60")
    assert not aligner.needs_realignment()
    query(store_url, "UPDATE sentence_pairs SET state = 'waiting' WHERE id > 60")
    assert aligner.needs_realignment()
    assert [batch.pairs for batch in aligner.realign_stale(70)] == [70]
    assert not aligner.needs_realignment()


def test_files_are_aligned_with_the_counts_of_a_store(hierogram: Run, tmp_path: Path) -> None:
    sources, targets, alignments = invented_corpus(PAIRS)
    with open_store(f"sqlite:///{tmp_path}/store.db", create=True, settings=QUICK) as store:
        put(store, 0, 250)
        align_pending(store)
        before = store.position()
    (tmp_path / "s").write_text("".join(line + "\n" for line in sources[250:252]))
    (tmp_path / "t").write_text("".join(line + "\n" for line in targets[250:252]))
    (tmp_path / "gold").write_text("".join(line + "\n" for line in alignments[250:252]))
    rates = []
    for more in ([], ["--store", "store.db"]):
        assert hierogram("align", "s", "t", "-o", "out", *more).code == 0
        rates.append(json.loads(hierogram("evaluate", "out", "-r", "gold", "--of", "links", "--json").out)["aer"])
    assert rates[1] < min(0.1, rates[0])
    with open_store(f"sqlite:///{tmp_path}/store.db") as store:
        assert store.position() == before
    refused = hierogram("align", "s", "t", "--store", "store.db", "--model", "bhmm")
    assert (refused.code, "prior counts of other pairs require the model bhmm-f, got bhmm" in refused.err) == (3, True)
    assert hierogram("align", "s", "t", "--store", "missing.db").code == 3


def reset_derivations(url: str) -> None:
    """Remove all derivations and rules, so that pairs changed by hand are resampled."""
    for statement in (
        "DELETE FROM derivations",
        "DELETE FROM rule_words",
        "DELETE FROM rules",
        "DELETE FROM rule_key_runs",
        "UPDATE sentence_pairs SET state = 'waiting', stage = 0, sweep = 0",
        "UPDATE store_state SET waiting = (SELECT count(*) FROM sentence_pairs), settled = 0, sampling = 0,"
        " rules_in_use = 0, rules_expected = 0, rules_stored = 0, rule_tokens = 0, expected_tokens = 0",
    ):
        query(url, statement)
