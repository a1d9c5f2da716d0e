"""Errors of a store and of worker processes; messages say what was wrong, where, and what to do."""


class StoreError(Exception):
    """Base of the errors of the store."""


class StoreMissingError(StoreError):
    """There is no store at the URL."""


class StoreUnavailableError(StoreError):
    """The database did not answer, is locked by another writer, or refused an operation."""


class StoreRefusedError(StoreUnavailableError):
    """The database rejected a value that it cannot store, and would reject it again."""


class StoreUrlError(StoreError):
    """The URL does not name a database that can hold a store."""


class SchemaOutdatedError(StoreError):
    """The store was made by an older version and must be upgraded first."""


class CountError(StoreError):
    """A change would make a rule's count negative."""


class RuleKeyCollisionError(StoreError):
    """Two different rules have the same key; nothing was written.

    `stored` and `offered` are the two rules as `source ||| target`.
    """

    def __init__(self, stored: str, offered: str) -> None:
        super().__init__(
            f"two rules have the same key, {stored!r} and {offered!r}; nothing was written: assign new keys with "
            "another salt"
        )
        self.stored = stored
        self.offered = offered


class PairMissingError(StoreError):
    """A pair is not stored."""


class PairChangedError(StoreError):
    """Another process has sampled a pair since it was read."""


class HumanLinksError(StoreError):
    """Links were given that a pair cannot have."""


class StoreHeldError(StoreError):
    """Another process writes the store's grammar."""


class LeaseLostError(StoreError):
    """The lease on the store's grammar was not renewed in time, and is someone else's or nobody's by now."""


class RekeyError(StoreError):
    """The new keys do not cover the stored rules one to one."""


class RequestConflictError(StoreError):
    """Someone else is taking in the same request."""


class SlowQueryError(StoreError):
    """A question took longer than it may, and was ended."""


class QueryError(StoreError):
    """SQL that somebody asked is not understood, or would do more than read; the message has the reason."""


class WorkerProcessError(StoreError):
    """Work in a process of its own stood still, was killed, took too much memory, or failed."""
