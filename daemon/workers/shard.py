"""A shard: pairs in a worker's memory, with their forests and derivations, and what samples them."""

from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from hierogram.daemon.learning.kinds.counting import variables
from hierogram.daemon.learning.kinds.kind import Turn
from hierogram.daemon.learning.kinds.pairs import longest_rule
from hierogram.daemon.learning.kinds.synchronous import plan_of, schedule_of
from hierogram.daemon.workers.shares import Texts
from hierogram.samplers.counts.chain import ChainState, SweepInfo
from hierogram.samplers.counts.models import Model
from hierogram.samplers.counts.table import RuleTable
from hierogram.samplers.forests.batch import Batch, State, make_batch
from hierogram.samplers.forests.forest import Bitext, build_forests
from hierogram.samplers.forests.fragments import add_up
from hierogram.samplers.forests.records import read_averages, write_averages
from hierogram.samplers.grammar import keys
from hierogram.samplers.grammar.columns import Blobs
from hierogram.samplers.synchronous.passes import SweepPlan
from hierogram.samplers.synchronous.sweeps import GIBBS, Blocks, build
from hierogram.storage.records import Settings


class Bounds(NamedTuple):
    """What bounds scratch memory in the whole batch, so that a shard's is as large, and so does the same."""

    most_nodes: int
    most_rules: int
    most_options: int
    most_listed: int

    @classmethod
    def of(cls, batch: Batch) -> "Bounds":
        """Those of a batch."""
        return cls(batch.most_nodes, batch.most_rules, batch.most_options, batch.most_listed)


class Setup(NamedTuple):
    """What all workers of a batch have to know: the store's settings and sizes of vocabulary, how to sample."""

    settings: Settings
    vocabulary: tuple[int, int]
    method: int = GIBBS
    blocks: Blocks = Blocks()
    threads: int = 1
    bounds: Bounds = Bounds(1, 1, 1, 1)


class Variables(NamedTuple):
    """What sampling changes of pairs: `edge` uint16[N] and `cut` uint8[N] as in `State`, records of averages."""

    edge: NDArray[np.uint16]
    cut: NDArray[np.uint8]
    records: Blobs


class Contents(NamedTuple):
    """A shard as it is sent to a worker: its pairs, where each round's begin, and how far they have come."""

    texts: Texts
    rounds: NDArray[np.int64]
    variables: Variables


def _batch_of(texts: Texts, settings: Settings) -> Batch:
    """The pairs with their forests."""
    # Arrays that came from elsewhere cannot be written to, and kernels are compiled anew for such.
    bitext = Bitext._make(array.copy() for array in texts.bitext)
    words = add_up(texts.source_hashes.copy(), texts.target_hashes.copy(), keys.ALL_BITS)
    forests = build_forests(bitext, settings.span_limit)
    return make_batch(bitext, words, forests, texts.pairs.copy(), longest_rule(settings))


class Shard:
    """The pairs of one shard."""

    def __init__(self, setup: Setup, model: Model, contents: Contents, executor: ThreadPoolExecutor) -> None:
        self._setup = setup
        self._rounds = contents.rounds
        self._schedule = schedule_of(setup.settings)
        batch = _batch_of(contents.texts, setup.settings)._replace(**setup.bounds._asdict())
        self._kernel = build(
            model, batch, method=setup.method, blocks=setup.blocks, workers=setup.threads, run=executor.map
        )
        edge, cut, records = contents.variables
        self._state = State(edge.copy(), cut.copy())
        self._averages = read_averages(batch, Blobs(records.content.copy(), records.offsets.copy()))
        self._plan: SweepPlan | None = None

    @property
    def info(self) -> SweepInfo:
        """What was done in the sweep so far."""
        return self._kernel.info()

    def begin(self, turn: Turn) -> None:
        """Begin a sweep; the turn is that of these pairs."""
        self._plan = plan_of(Turn(turn.sweeps.copy(), turn.active.copy(), turn.averaged.copy()), self._schedule)
        self._kernel.begin()

    def sample(self, number: int, table: RuleTable) -> NDArray[np.uint64]:
        """This shard's part of a round against the table, which stays as it is: what changes in it, see `merge`; valid
        until the next round."""
        assert self._plan is not None
        state = ChainState(self._state, table, self._averages)
        pairs = int(self._rounds[number]), int(self._rounds[number + 1])
        self._kernel.sample(self._setup.settings.seed, state, self._plan, pairs)
        changes = self._kernel.changes()
        return changes[0] if len(changes) == 1 else np.concatenate(changes)

    def variables(self) -> Variables:
        """How far the pairs have come."""
        edge, cut = variables(self._state)
        return Variables(edge.copy(), cut.copy(), write_averages(self._averages))
