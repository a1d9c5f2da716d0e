"""Errors of a store and of child processes. Messages state the problem, its location and a solution."""


class StoreError(Exception):
    """Base of the errors of the store."""


class StoreMissingError(StoreError):
    """No store exists at the URL."""


class StoreUnavailableError(StoreError):
    """The database does not answer, is locked or rejects an operation, or a child process cannot start."""


class StoreRefusedError(StoreUnavailableError):
    """The database rejected a value that it cannot store. A retry would fail as well."""


class StoreUrlError(StoreError):
    """The URL cannot be used: it is invalid, its folder does not exist, or its driver is not installed."""


class SchemaOutdatedError(StoreError):
    """The store was created by an older version and must be upgraded."""


class RuleKeyCollisionError(StoreError):
    """Two different rules (`source ||| target`) have the same key. Nothing was written."""

    def __init__(self, stored: str, new: str) -> None:
        super().__init__(
            f"two rules have the same key, {stored!r} and {new!r}; nothing was written: run `hierogram learn`, which "
            "assigns new keys"
        )


class HumanLinksError(StoreError):
    """The given human links are out of range for the pair, or contradict each other."""


class StoreHeldError(StoreError):
    """Another process holds the lease on the store's grammar."""


class LeaseLostError(StoreError):
    """The lease on the store's grammar was not renewed in time, so another process may have taken it."""


class WriteConflictError(StoreError):
    """Another process has recorded the same request, or has set other learned settings."""


class SlowQueryError(StoreError):
    """A query exceeded its time limit and was canceled."""


class QueryError(StoreError):
    """A user's SQL query is invalid, not read-only or too large, or queries are disabled, see the message."""


class WorkerProcessError(StoreError):
    """Work in a child process made no progress, was killed, exceeded its memory, or failed."""


def install_extra(extra: str) -> str:
    """Return an instruction, for messages, to install an optional dependency group (extra)."""
    return f"run pip install '.[{extra}]' in the source folder of hierogram"
