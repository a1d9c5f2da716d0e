"""The grammars of the table: heuristic ones, and samples of a store under two models."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hierogram.daemon.alignment.aligning import align
from hierogram.daemon.alignment.requests import Request
from hierogram.daemon.corpora.ingest import ingest
from hierogram.daemon.corpora.lines import read_sentences, write_lines
from hierogram.daemon.corpora.reading import Input
from hierogram.daemon.exports.exporting import export
from hierogram.daemon.exports.options import Counted, ExportOptions
from hierogram.daemon.exports.scratch import load_compositions, load_rules, scratch
from hierogram.daemon.learning.kinds.pairs import LoadedPairs
from hierogram.daemon.learning.learner import Learner, LearnOptions, holding_lease
from hierogram.daemon.learning.learning import ALIGNED, learn
from hierogram.daemon.learning.residents import ResidentBatch, read_batches
from hierogram.daemon.progress import progress
from hierogram.samplers.alignment.options import GDFA
from hierogram.samplers.forests.averages import add_trees
from hierogram.samplers.grammar.settings import DIRICHLET, PAPER, PITMAN_YOR, STRATIFIED
from hierogram.storage.exports.snapshot import Snapshot
from hierogram.storage.records import Settings
from hierogram.storage.store import Store, open_store
from hierogram.tools.comparison.heuristic_export import export_heuristic
from hierogram.tools.comparison.pruning import Pruning
from hierogram.tools.measures.results import temporary_folder

FEATURES = ("p_target_given_source", "p_source_given_target", "lex_target_given_source", "lex_source_given_target")
"""Features that all grammars of the table have."""

PAIRS, START, SAMPLES, DEFAULT = "pairs", "start", "samples", "default"
"""Stores of pairs alone, of the state in which sampling begins, of eight samples merged, and of default settings; the
others have models' names, and the default schedule."""


@dataclass(frozen=True, slots=True)
class System:
    """A grammar: its name, the store that it comes from, and how it is taken out of it.

    `features` None: all. `smoothing` None: as exports have it. `pruning` says which rules of a heuristic grammar stay.
    `chain` is the seed of the store.
    """

    name: str
    store: str
    counted: Counted = Counted.MEANS
    hiero: bool = False
    heuristic: bool = False
    singletons: bool = True
    features: tuple[str, ...] | None = FEATURES
    smoothing: float | None = None
    pruning: Pruning | None = None
    chain: int = 1


HIERO, ZEROTH, HUNDREDTH, AVERAGED, MEANS = "Hiero", "0th sample", "100th sample", "averaged", "posterior means"
SYSTEMS = (
    System(HIERO, PAIRS, heuristic=True),
    System("no singletons", PAIRS, heuristic=True, singletons=False),
    System(ZEROTH, START, Counted.DRAWN),
    System(HUNDREDTH, PITMAN_YOR, Counted.DRAWN),
    System(f"{HUNDREDTH}, Hiero's constraints", PITMAN_YOR, Counted.DRAWN, hiero=True),
    System(AVERAGED, SAMPLES),
    System(f"{AVERAGED}, Hiero's constraints", SAMPLES, hiero=True),
    System(MEANS, PITMAN_YOR),
    System(f"{HUNDREDTH}, Dirichlet process", DIRICHLET, Counted.DRAWN),
    System(f"{MEANS}, Dirichlet process", DIRICHLET),
)


@dataclass(frozen=True, slots=True)
class Made:
    """A grammar as a file, with the rules that can match the held-out sentences, and how many rules it has by scope."""

    system: System
    file: Path
    by_scope: list[int]

    @property
    def output(self) -> Path:
        """The file of its translations."""
        return self.file.with_suffix(".out")


def aligned(files: Sequence[str], folder: Path, threads: int) -> list[str]:
    """Return the files of a bitext with those of its alignment, which is made unless it is there."""
    if len(files) > len(("source", "target")):
        return list(files)
    path = folder / "train.align"
    if not path.exists():
        with progress("align", "sweeps") as shown:
            source, target = map(read_sentences, files)
            request = Request(threads=threads, symmetrization=GDFA)
            found = align(source, target, request, lambda done, total: shown.update(done, total, done))
        write_lines(path, found.lines())
    return [*files, str(path)]


def learned_store(folder: Path, name: str, files: Sequence[str], threads: int, chain: int = 1) -> str:
    """URL of the store that a system's samples come from, made unless it is there; `chain` is its seed."""
    if name == PAIRS:
        name = PITMAN_YOR
    path = folder / (f"{name}.db" if chain == 1 else f"{name}-{chain}.db")
    url = f"sqlite:///{path.absolute()}"
    if path.exists():
        return url
    new = path.with_suffix(".new")
    new.unlink(missing_ok=True)
    settings = Settings(
        model=DIRICHLET if name == DIRICHLET else PITMAN_YOR,
        schedule=PAPER if name in (START, SAMPLES) else STRATIFIED,
        seed=chain,
    )
    with open_store(f"sqlite:///{new.absolute()}", create=True, settings=settings) as store:
        with Input(list(files)) as source:
            ingest(store, source)
        with progress(f"learn, {name}", "pairs") as shown:
            options = LearnOptions(threads, lambda now: shown.update(now.done, now.total, now.done))
            if name == START:
                # Every node cut, a random edge at each.
                with holding_lease(store, "table 2"), Learner(store) as learner:
                    for rows in read_batches(store, ALIGNED):
                        learner.open(rows).commit(store, [], learner.chain.labels(), None)
            elif name == SAMPLES:
                commit_averaged_samples(store, options)
            else:
                learn(store, options=options)
    new.rename(path)
    return url


def grammar_file(system: System, folder: Path) -> Path:
    """Return where a system's grammar goes."""
    name = system.name.replace(",", "").replace("'", "").replace(" ", "-")
    return folder / f"{name}.cdec"


def make_grammar(system: System, url: str, held_out: Path, path: Path, max_scope: int) -> list[int]:
    """Write a system's grammar, as far as it can match the sentences of a file; how many rules it has by scope."""
    options = ExportOptions(
        format="cdec",
        features=system.features,
        means=system.counted is Counted.MEANS,
        drawn=system.counted is Counted.DRAWN,
        smoothing=system.smoothing,
        hiero=system.hiero,
        max_scope=max_scope,
        filter_for=held_out,
    )
    path.unlink(missing_ok=True)
    with open_store(url) as store:
        if system.heuristic:
            return export_heuristic(store, path, options, singletons=system.singletons, pruning=system.pruning)[1]
        export(store, path, options)
        with store.snapshot() as snapshot:
            return _by_scope(snapshot, system)


def _by_scope(snapshot: Snapshot, system: System) -> list[int]:
    with temporary_folder() as folder, scratch(folder) as database:
        load_rules(database, snapshot, None, system.counted, ("scope", "hiero"))
        if system.counted is Counted.TRANSLATION:
            load_compositions(database, snapshot, None, ("scope",))
        only = "WHERE hiero > 0" if system.hiero else ""
        numbers = database.numbers(f"(SELECT scope FROM rules {only})", ["scope"])
    return np.bincount(numbers[:, 0].astype(np.int64), minlength=1).tolist()


def commit_averaged_samples(store: Store, options: LearnOptions) -> None:
    """Take a store's pairs through the schedule `paper`, and commit as their means those of eight samples.

    The samples are the state in which sampling begins (every node cut, a random edge at each), and those after
    each of the levels: with defaults the 0th, 10th, …, 70th.
    """
    settings = store.settings()
    with holding_lease(store, "table 2"), Learner(store, options) as learner:
        learner.total = store.count_pairs(ALIGNED) * settings.levels * settings.sweeps_per_level
        for rows in read_batches(store, ALIGNED):
            batch = learner.open(rows)
            _add_sample(batch)
            for level in range(1, settings.levels + 1):
                learner.sweep(batch, np.full(len(rows), level * settings.sweeps_per_level), leave_open=True)
                _add_sample(batch)
            batch.commit(store, [], learner.chain.labels(), None)


def _add_sample(batch: ResidentBatch) -> None:
    assert isinstance(batch.loaded, LoadedPairs)
    add_trees(batch.averages, batch.loaded.batch, batch.state, np.ones(batch.loaded.size, np.bool_))
