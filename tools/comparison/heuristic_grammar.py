"""Hiero's heuristic grammar of any number of pairs: sorted runs on the disk, then one merge.

Memory is that of a few buffers, whatever the number of pairs and rules.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from tempfile import TemporaryFile
from threading import Lock
from types import TracebackType
from typing import Self

import numpy as np
from numpy.typing import NDArray

from hierogram.samplers.extraction.extraction import (
    Limits,
    Place,
    RuleBuffer,
    empty_buffer,
    extract,
    make_buffer,
    make_scratch,
    row_shape,
)
from hierogram.samplers.extraction.runs import merge_some, sorted_rows, start_merge
from hierogram.samplers.forests.forest import Bitext

RULES_A_BUFFER = 1 << 20
RULES_A_BLOCK = 1 << 16


class HeuristicGrammar:
    """The rules of the bitexts that are added to it; a context manager that leaves nothing on the disk.

    `rules_a_buffer` rules are held in memory by each of `threads` threads. Raises `ExtractionError`, when pairs are
    added, where one phrase has more rules than that.
    """

    def __init__(self, limits: Limits | None = None, threads: int = 2, rules_a_buffer: int = RULES_A_BUFFER) -> None:
        self.limits = limits or Limits()
        self.shape = row_shape(self.limits)
        self._threads = threads
        self._free: SimpleQueue[RuleBuffer] = SimpleQueue()
        self._buffers = [make_buffer(self.limits, rules_a_buffer) for _ in range(threads)]
        for buffer in self._buffers:
            self._free.put(buffer)
        self._file = TemporaryFile(prefix="hierogram-rules-")  # noqa: SIM115 closed by __exit__
        self._ends: list[int] = []
        self._writing = Lock()

    def __enter__(self) -> Self:
        """The grammar itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def add(self, bitexts: Iterable[Bitext], report: Callable[[int], None] | None = None) -> None:
        """Add the rules of bitexts, which are read ahead by a few; `report` hears the pairs done."""
        done = 0
        with ThreadPoolExecutor(self._threads) as pool:
            pending: deque[Future[int]] = deque()
            for bitext in bitexts:
                pending.append(pool.submit(self._add_one, bitext))
                if len(pending) > 2 * self._threads:
                    done += pending.popleft().result()
                    if report:
                        report(done)
            for waiting in pending:
                done += waiting.result()
                if report:
                    report(done)
        for buffer in self._buffers:
            self._spill(buffer)

    def _add_one(self, bitext: Bitext) -> int:
        buffer = self._free.get()
        try:
            pairs = len(bitext.source_offset) - 1
            scratch = make_scratch(bitext, self.limits)
            place = Place()
            while (place := extract(bitext, self.limits, buffer, scratch, place)).pair < pairs:
                self._spill(buffer)
            return pairs
        finally:
            self._free.put(buffer)

    def _spill(self, buffer: RuleBuffer) -> None:
        rows = sorted_rows(buffer.taken, self.shape)
        empty_buffer(buffer)
        with self._writing:
            rows.tofile(self._file)
            self._ends.append(len(rows) + (self._ends[-1] if self._ends else 0))

    def blocks(self) -> Iterator[NDArray[np.uint64]]:
        """The rules as rows, each once, in the order of their symbols."""
        total = self._ends[-1] if self._ends else 0
        if not total:
            return
        self._file.flush()
        rows: NDArray[np.uint64] = np.memmap(self._file, np.uint64, "r", shape=(total, self.shape.width))
        merge = start_merge(rows, np.array(self._ends, np.int64), self.shape)
        while len(block := merge_some(merge, self.shape, RULES_A_BLOCK)):
            yield block
