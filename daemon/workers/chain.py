"""The chain of a store whose sweeps are done by workers."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from hierogram.daemon.exceptions import WorkersError
from hierogram.daemon.learning.kinds.counting import fragment_averages, variables
from hierogram.daemon.learning.kinds.kind import Chain, Loaded, Means, Report, Sweep, Turn
from hierogram.daemon.learning.kinds.registry import kind_of
from hierogram.daemon.learning.kinds.state import Averages, State
from hierogram.daemon.learning.kinds.synchronous import PhraseChain, Synchronous, pairs_of
from hierogram.daemon.workers.cluster import Cluster
from hierogram.daemon.workers.crew import Crew
from hierogram.daemon.workers.shard import Bounds, Setup, Variables
from hierogram.samplers.counts.chain import SweepInfo
from hierogram.samplers.synchronous.sweeps import Blocks
from hierogram.storage.records import Settings
from hierogram.storage.store import Store

_PAIRS_A_ROUND = 24_576
_FEWEST_ROUNDS = 2


def check_shareable(settings: Settings) -> None:
    """Raises `WorkersError` where the sweeps of such a store cannot be shared out."""
    if not isinstance(kind_of(settings), Synchronous):
        raise WorkersError(
            f"workers sample word-aligned pairs; this store's grammar is {settings.grammar}: learn without --workers"
        )
    if settings.type_moves:
        raise WorkersError("type-based moves look at all pairs at once: learn without --workers")


def shared_chain(cluster: Cluster) -> Callable[[Store, Means], Chain]:
    """What makes a chain whose sweeps are done by the cluster's workers; raises `WorkersError` of other kinds."""

    def make(store: Store, means: Means) -> Chain:
        check_shareable(store.settings())
        return SharedChain(store, means, cluster)

    return make


def suited_blocks(pairs: int) -> Blocks | None:
    """The blocks in which workers sample so many pairs: those of threads, but as few rounds of equal size as there can
    be, two at least, so that workers wait less often for each other; None where the pairs are too few."""
    blocks = Blocks.suited_to(pairs)
    if blocks is None:
        return None
    rounds = max(_FEWEST_ROUNDS, -(-pairs // _PAIRS_A_ROUND))
    return replace(blocks, blocks_a_round=-(-pairs // (rounds * blocks.pairs_a_block)))


class SharedChain(PhraseChain):
    """The rule counts of a store, whose pairs workers sample; batches that are too small for blocks are sampled here.

    The threads are those of each worker.
    """

    def __init__(self, store: Store, means: Means, cluster: Cluster) -> None:
        super().__init__(store, means)
        self._means = means
        self._cluster = cluster
        self.crew: Crew | None = None
        self._in_step: frozenset[int] = frozenset()

    @property
    def rule_types(self) -> int:
        """Rules in use."""
        self._catch_up()
        return super().rule_types

    @property
    def rule_tokens(self) -> int:
        """Uses of rules."""
        return super().rule_tokens if self.crew is None else self.crew.rule_tokens

    def log_likelihood(self) -> float:
        """Of all rule tokens, natural-log."""
        self._catch_up()
        return super().log_likelihood()

    def _catch_up(self) -> None:
        if self.crew is not None:
            self.table = self.crew.counts()

    def enter(self, loaded: Loaded, state: State, stored: NDArray[np.bool_]) -> None:
        """Count the derivations of the pairs that are not stored; workers get the counts when they are next needed."""
        self._dismiss(changed=not stored.all())
        super().enter(loaded, state, stored)

    def change(self, loaded: Loaded, state: State, change: int) -> None:
        """Add `change` for each rule of the derivations."""
        self._dismiss(changed=True)
        super().change(loaded, state, change)

    def follow(self, store: Store) -> None:
        """Take the store's present vocabulary into the model."""
        self._dismiss(changed=True)
        super().follow(store)

    def _dismiss(self, changed: bool) -> None:
        """Forget the batch at hand; workers keep their tables, unless counts or model are `changed` here."""
        self._catch_up()
        if changed:
            self._in_step = frozenset()
        elif self.crew is not None:
            self._in_step = self.crew.in_step
        self.crew = None

    def sweep(self, loaded: Loaded) -> Sweep:
        """What has workers sweep over these pairs."""
        pairs = pairs_of(loaded)
        blocks = self._means.blocks or suited_blocks(pairs.size)
        if blocks is None:
            self._dismiss(changed=True)
            return super().sweep(loaded)
        self._compiling.wait()

        def take(state: State, averages: Averages, turn: Turn, report: Report) -> tuple[State, SweepInfo]:
            if self.crew is None or self.crew.loaded is not pairs:
                self._dismiss(changed=False)
                setup = Setup(
                    self._settings, self._vocabulary, self._method, blocks, self._threads, Bounds.of(pairs.batch)
                )
                edge, cut = variables(state)
                records = pairs.write_averages(fragment_averages(averages))
                crew = Crew(self._cluster, setup, self.model, pairs)
                crew.form(Variables(edge.copy(), cut.copy(), records), self.table, self._in_step)
                self.crew = crew
            return state, self.crew.sweep(turn, report)

        return take

    def gather(self, state: State, averages: Averages) -> tuple[State, Averages]:
        """How far the workers have come with these pairs."""
        if self.crew is None:
            return state, averages
        edge, cut, records = self.crew.collect()
        own = variables(state)
        own.edge[:], own.cut[:] = edge, cut
        return own, self.crew.loaded.read_averages(records)
