"""What Prometheus reads: how the daemon is, what the store holds, what was asked."""

from collections.abc import Iterable, Iterator

from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from hierogram.daemon.serving.health import Condition
from hierogram.storage.records import IngestTotals, StoreStatus

_SECONDS = (0.005, 0.02, 0.1, 0.5, 2.0, 10.0, 60.0, 600.0)


class RequestMetrics:
    """Counts requests and the lines that they brought."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        self._requests = Counter(
            "hierogram_http_requests",
            "Requests answered, by method, route and status.",
            ["method", "route", "status"],
            registry=self.registry,
        )
        self._seconds = Histogram(
            "hierogram_http_request_seconds",
            "Seconds from a request to the end of its answer.",
            ["route"],
            buckets=_SECONDS,
            registry=self.registry,
        )
        self._lines = Counter(
            "hierogram_http_lines", "Lines of bodies of pairs, by what became of them.", ["outcome"],
            registry=self.registry,
        )  # fmt: skip
        for outcome in ("accepted", "duplicate", "rejected"):
            self._lines.labels(outcome)

    def count(self, method: str, route: str, status: int, seconds: float) -> None:
        """A request has been answered."""
        known = method if method in ("GET", "HEAD", "POST", "DELETE") else "other"
        self._requests.labels(known, route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def count_lines(self, totals: IngestTotals) -> None:
        """Lines have been taken in."""
        self._lines.labels("accepted").inc(totals.accepted)
        self._lines.labels("duplicate").inc(totals.duplicates)
        self._lines.labels("rejected").inc(totals.rejected)


class _Present(Collector):
    """The daemon and its store at this moment."""

    def __init__(self, condition: Condition, status: StoreStatus | None) -> None:
        self._condition = condition
        self._status = status

    def collect(self) -> Iterable[Metric]:
        """All figures."""
        yield from _of_daemon(self._condition)
        yield _gauge("hierogram_store_up", "Whether the store answers.", self._status is not None)
        if self._status is not None:
            yield from _of_store(self._status)


def _gauge(name: str, text: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, text, value=float(value))


def _of_daemon(condition: Condition) -> Iterator[Metric]:
    lag = condition.lag
    yield _gauge("hierogram_uptime_seconds", "Seconds since the daemon started.", condition.uptime)
    yield _gauge("hierogram_degraded", "Whether something keeps the daemon from its work.", bool(condition.degraded))
    yield _gauge("hierogram_lag_pairs", "Pairs that are not through the sampling schedule yet.", lag.pairs)
    states = GaugeMetricFamily("hierogram_lag_pairs_by_state", "The same pairs, by state.", labels=["state"])
    for state, number in lag.states.items():
        states.add_metric([state], number)
    yield states
    yield _gauge("hierogram_lag_oldest_seconds", "How long the oldest of them has waited.", lag.oldest or 0.0)
    yield _gauge("hierogram_sweeps_per_second", "Pair sweeps a second lately.", lag.sweeps_per_second)
    ages = GaugeMetricFamily("hierogram_loop_age_seconds", "Seconds since a loop's last beat.", labels=["loop"])
    restarts = CounterMetricFamily("hierogram_loop_restarts", "How often a loop was started again.", labels=["loop"])
    spool = condition.spool
    yield _gauge(
        "hierogram_spool_waiting_files", "Files in the spool that wait for their turn or others.", spool.waiting
    )
    yield _gauge("hierogram_spool_incomplete_inputs", "Inputs of which files are missing.", len(spool.incomplete))
    for loop in condition.loops:
        ages.add_metric([loop.name], loop.age)
        restarts.add_metric([loop.name], loop.restarts)
    yield ages
    yield restarts


def _of_store(status: StoreStatus) -> Iterator[Metric]:
    pairs = GaugeMetricFamily("hierogram_pairs", "Stored pairs, by state.", labels=["state"])
    for state, number in status.pairs.items():
        pairs.add_metric([state], number)
    yield pairs
    yield _gauge("hierogram_rules", "Rules in the store.", status.rules)
    yield _gauge("hierogram_rule_tokens", "Uses of rules in the present derivations.", status.rule_tokens)
    if status.log_bytes is not None:
        yield _gauge("hierogram_store_log_bytes", "Size of the log beside an SQLite store's file.", status.log_bytes)
    yield _gauge("hierogram_rejected_lines", "Rejected lines that are kept.", status.rejected)
    yield CounterMetricFamily("hierogram_sweeps", "Sweeps recorded in the store.", value=status.sweeps)
    yield CounterMetricFamily("hierogram_store_position", "Writing transactions of the store.", value=status.position)
    if status.last_log_likelihood is not None:
        yield _gauge("hierogram_log_likelihood", "Natural log-likelihood, as last known.", status.last_log_likelihood)


def render_metrics(requests: RequestMetrics, condition: Condition, status: StoreStatus | None) -> bytes:
    """All metrics in Prometheus' text format."""
    present = CollectorRegistry()
    present.register(_Present(condition, status))
    return generate_latest(present) + generate_latest(requests.registry)
