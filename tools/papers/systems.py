"""The grammars of the table: heuristic ones, and samples of a store under two models."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hierogram.daemon.commands.grammar import align_pending
from hierogram.daemon.corpora.ingest import ingest
from hierogram.daemon.corpora.inputs import Input
from hierogram.daemon.exports.exporting import export
from hierogram.daemon.exports.options import ExportOptions
from hierogram.daemon.learning.learner import Learner, LearnOptions
from hierogram.daemon.learning.learning import ALIGNED, learn
from hierogram.daemon.learning.lease import holding_lease
from hierogram.daemon.learning.residents import read_batches
from hierogram.daemon.progress import progress
from hierogram.samplers.grammar.settings import DIRICHLET, PITMAN_YOR
from hierogram.storage.exports.snapshot import Snapshot
from hierogram.storage.records import Settings
from hierogram.storage.store import Store, open_store
from hierogram.tools.comparison.heuristic_export import Heuristic, export_heuristic

FEATURES = ("p_target_given_source", "p_source_given_target", "lex_target_given_source", "lex_source_given_target")
"""Features that all grammars of the table have."""

PAIRS = "pairs"


@dataclass(frozen=True, slots=True)
class System:
    """A grammar: its name, the store that it comes from, and how it is taken out of it."""

    name: str
    store: str
    sampled: bool = False
    hiero: bool = False
    heuristic: bool = False
    singletons: bool = True


HIERO, ZEROTH, HUNDREDTH, AVERAGED = "Hiero", "0th sample", "100th sample", "averaged"
SYSTEMS = (
    System(HIERO, PAIRS, heuristic=True),
    System("no singletons", PAIRS, heuristic=True, singletons=False),
    System(ZEROTH, "start"),
    System(HUNDREDTH, PITMAN_YOR),
    System(f"{HUNDREDTH}, Hiero's constraints", PITMAN_YOR, hiero=True),
    System(AVERAGED, PITMAN_YOR, sampled=True),
    System(f"{AVERAGED}, Hiero's constraints", PITMAN_YOR, sampled=True, hiero=True),
    System(f"{HUNDREDTH}, Dirichlet process", DIRICHLET),
    System(f"{AVERAGED}, Dirichlet process", DIRICHLET, sampled=True),
)


@dataclass(frozen=True, slots=True)
class Made:
    """A grammar as a file, with the rules that can match the held-out sentences, and how many rules it has by scope."""

    system: System
    file: Path
    by_scope: list[int]


def learned_store(folder: Path, name: str, files: Sequence[str], threads: int) -> str:
    """URL of the store that a system's samples come from, made unless it is there."""
    if name == PAIRS:
        name = PITMAN_YOR
    path = folder / f"{name}.db"
    url = f"sqlite:///{path.absolute()}"
    if path.exists():
        return url
    new = path.with_suffix(".new")
    new.unlink(missing_ok=True)
    settings = Settings(model=DIRICHLET if name == DIRICHLET else PITMAN_YOR)
    with open_store(f"sqlite:///{new.absolute()}", create=True, settings=settings) as store:
        with Input(list(files)) as source:
            ingest(store, source)
        align_pending(store, threads)
        if name == "start":
            commit_start(store)
        else:
            with progress(f"learn, {name}", "pairs") as shown:
                options = LearnOptions(threads, lambda now: shown.update(now.done, now.total, now.done))
                learn(store, options=options)
    new.rename(path)
    return url


def commit_start(store: Store) -> None:
    """Commit the state in which sampling begins: every node cut, a random edge at each."""
    with holding_lease(store, "table 2"), Learner(store) as learner:
        for rows in read_batches(store, ALIGNED):
            learner.open(rows).commit(store, [], learner.chain.labels(), None)


def make_grammar(system: System, url: str, held_out: Path, folder: Path, max_scope: int) -> Made:
    """Write a system's grammar, as far as it can match the sentences of a file."""
    name = system.name.replace(",", "").replace("'", "").replace(" ", "-")
    path = folder / f"{name}.cdec"
    options = ExportOptions(
        format="cdec",
        features=FEATURES,
        sampled=system.sampled,
        hiero=system.hiero,
        max_scope=max_scope,
        filter_for=held_out,
    )
    path.unlink(missing_ok=True)
    with open_store(url) as store:
        if system.heuristic:
            return Made(system, path, export_heuristic(store, path, options, Heuristic(system.singletons)).by_scope)
        export(store, path, options)
        with store.snapshot() as snapshot:
            return Made(system, path, _by_scope(snapshot, system))


def _by_scope(snapshot: Snapshot, system: System) -> list[int]:
    counts = np.zeros(1, np.int64)
    for _, (scopes, *_) in snapshot.rule_blocks(("scope",), sampled=system.sampled):
        found = np.bincount(np.array(scopes.split("\n"), np.int64), minlength=len(counts))
        found[: len(counts)] += counts
        counts = found
    if system.hiero:
        hiero = [rule.scope for rule in snapshot.iterate_rules(sampled=system.sampled, hiero=True)]
        counts = np.bincount(np.array(hiero, np.int64), minlength=1)
    return [int(number) for number in counts]
