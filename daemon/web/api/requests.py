"""A body of pairs on its way into the store, and requests that clients may repeat."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from hashlib import blake2b
from http import HTTPStatus
from uuid import uuid4

from hierogram.daemon.corpora.formats import JSONL, Apart, fields_of_lines, json_object
from hierogram.daemon.corpora.ingest import Intake
from hierogram.daemon.corpora.limits import DEFAULT_LIMITS, Limits
from hierogram.daemon.corpora.reading import Handling
from hierogram.daemon.corpora.rejections import LINE_TOO_LONG, RejectionError
from hierogram.daemon.web.protocol.problems import ProblemError
from hierogram.storage.records import IngestTotals, RejectedLine, RequestRow
from hierogram.storage.store import Receipt, Store

_SHOWN_REJECTIONS = 100
_SHOWN_FIELDS = 20
_SHOWN_CHARACTERS = 100


@dataclass(frozen=True, slots=True)
class Answer:
    """What became of a body: see `IntakeAnswer`."""

    batch: int
    corpus: str
    lines: int = 0
    accepted: int = 0
    duplicates: int = 0
    rejected: int = 0
    reasons: dict[str, int] = field(default_factory=dict)
    rejected_lines: list[dict[str, object]] = field(default_factory=list)
    more_rejected: int = 0
    unused_fields: dict[str, int] = field(default_factory=dict)
    more_unused_fields: int = 0

    def plus(self, totals: IngestTotals, rejected: Sequence[RejectedLine], unused: Mapping[str, int]) -> "Answer":
        """The answer with another chunk; `unused` says how often its lines have which members that nobody uses."""
        reasons = dict(self.reasons)
        for run in rejected:
            reasons[run.reason] = reasons.get(run.reason, 0) + run.lines
        room = max(0, _SHOWN_REJECTIONS - len(self.rejected_lines))
        shown = [
            {"line": run.line, "last_line": run.last_line, "reason": run.reason, "message": run.message}
            for run in rejected[:room]
        ]
        fields = dict(self.unused_fields)
        more = 0
        for name, times in sorted(unused.items()):
            short = name[:_SHOWN_CHARACTERS].encode(errors="replace").decode()
            if short in fields or len(fields) < _SHOWN_FIELDS:
                fields[short] = fields.get(short, 0) + times
            else:
                more += times
        return Answer(
            self.batch,
            self.corpus,
            self.lines + totals.accepted + totals.duplicates + totals.rejected,
            self.accepted + totals.accepted,
            self.duplicates + totals.duplicates,
            self.rejected + totals.rejected,
            reasons,
            self.rejected_lines + shown,
            self.more_rejected + sum(run.lines for run in rejected[room:]),
            fields,
            self.more_unused_fields + more,
        )


class Body:
    """The lines of one request, taken in chunk by chunk; under a key, also across attempts.

    An attempt that ended in the middle left a record of how far it came, written together with its pairs. The next one
    skips as many lines, proves by their digest that they are the same, and goes on counting where the other stopped.
    Every method talks to the store: call them from one thread at a time.
    """

    def __init__(
        self, store: Store, corpus: str, key: str | None, max_line_bytes: int, limits: Limits = DEFAULT_LIMITS
    ) -> None:
        self._store = store
        self._corpus = corpus
        self._key = key
        self._max_line_bytes = max_line_bytes
        self._limits = limits
        self._digest = blake2b(digest_size=16)
        self._seen = 0
        self._intake: Intake | None = None
        self._earlier = store.find_request(key) if key is not None else None
        self._since = self._earlier.lines if self._earlier else None
        self.answer = Answer(**json.loads(self._earlier.answer)) if self._earlier else Answer(0, corpus)
        if self._earlier and self._earlier.corpus != corpus:
            raise self._other(f"it went into the corpus {self._earlier.corpus!r}")

    @property
    def repeated(self) -> bool:
        """Whether the request was done before this attempt."""
        return self._earlier is not None and self._earlier.done

    def add(self, lines: list[bytes]) -> IngestTotals:
        """Take in the next lines; returns what was added to the store now. Raises `ProblemError` and `StoreError`."""
        skipped = lines[: max(0, self.answer.lines - self._seen)]
        if skipped:
            self._skip(skipped)
            lines = lines[len(skipped) :]
        if not lines:
            return IngestTotals()
        if self.repeated:
            raise self._other("it had fewer lines")
        intake = self._open()
        unused: Counter[str] = Counter()
        [fields] = fields_of_lines([lines], partial(self._take_apart, unused), self._seen + 1)
        digest = self._digest.copy()
        digest.update(_joined(lines))

        def receipt(added: IngestTotals, rejected: list[RejectedLine]) -> Receipt:
            return self._record(self.answer.plus(added, rejected, unused), digest.digest()), self._since

        totals, rejected = intake.store(intake.read([fields]), receipt if self._key is not None else None)
        self.answer = self.answer.plus(totals, rejected, unused)
        self._digest = digest
        self._seen = self._since = self.answer.lines
        return totals

    def _skip(self, lines: list[bytes]) -> None:
        self._digest.update(_joined(lines))
        if not self.repeated:
            [fields] = fields_of_lines([lines], partial(self._take_apart, None), self._seen + 1)
            # What is stored is read again, so that later repeats of its lines are numbered as they should.
            self._open().read([fields])
        self._seen += len(lines)
        assert self._earlier is not None
        if self._seen == self._earlier.lines and self._digest.digest() != self._earlier.digest:
            raise self._other("its lines were others")

    def finish(self) -> Answer:
        """All lines have come: close the batch; returns the answer. Raises `ProblemError` and `StoreError`."""
        if self._seen < self.answer.lines:
            raise self._other("it had more lines")
        if not self.repeated:
            intake = self._open()
            record = self._record(self.answer, self._digest.digest(), done=True)
            intake.finish((record, self._since) if self._key is not None else None)
        return self.answer

    def fail(self, reason: str) -> None:
        """The rest will not come: close the batch as failed."""
        if self._intake:
            self._intake.fail(reason)

    def _open(self) -> Intake:
        if self._intake is None:
            # Every request has a name of its own, since the place of a rejected line is told by it.
            name = self._key if self._key is not None else uuid4().hex
            self._intake = Intake(self._store, self._corpus, f"http:{name}", JSONL, Handling(limits=self._limits))
            self.answer = replace(self.answer, batch=self._intake.report.batch)
        return self._intake

    def _record(self, answer: Answer, digest: bytes, *, done: bool = False) -> RequestRow:
        return RequestRow(self._key or "", self._corpus, answer.lines, digest, done, json.dumps(asdict(answer)))

    def _take_apart(self, unused: Counter[str] | None, line: bytes) -> Apart:
        if len(line) > self._max_line_bytes:
            raise RejectionError(LINE_TOO_LONG, f"the line is longer than {self._max_line_bytes} bytes")
        return json_object(line, unused)

    def _other(self, how: str) -> ProblemError:
        return ProblemError(
            HTTPStatus.UNPROCESSABLE_ENTITY,
            f"Idempotency-Key {self._key!r} was used for another request: {how}; take a new key for new content",
        )


def _joined(lines: Sequence[bytes]) -> bytes:
    return b"\n".join(lines) + b"\n"
