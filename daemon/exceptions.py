"""Errors of the daemon. Each message names the cause, the place and the remedy."""


class DaemonError(Exception):
    """Base of the errors of this package. The command line ends with exit code 3."""


class UsageError(DaemonError):
    """Options or arguments are invalid or contradict each other. The command line ends with exit code 2."""


class SpoolError(DaemonError):
    """The spool folder cannot be used, or a file in the spool cannot be moved."""


class InputError(DaemonError):
    """An input is unreadable, invalid or beyond a limit, or names pairs that do not exist."""


class WrongKindError(InputError):
    """The store's kind of grammar does not support the request."""


class TemporarySpaceError(InputError):
    """A temporary file for an input cannot be created or extended."""


class TooManyRejectedError(InputError):
    """An input has more rejected lines than the limit allows. Pairs stored before the error are kept."""


class ExportError(DaemonError):
    """An export cannot be written, read or scheduled, or another output file cannot be written."""


class NothingLearnedError(DaemonError):
    """The store has no pairs, or nothing has been learned from its pairs yet."""

    def __init__(self, store: str) -> None:
        super().__init__(f"{store}: nothing learned yet: run `hierogram learn`")


class AlignerUntrainedError(DaemonError):
    """The store's aligner has no link counts yet."""


class BusyError(DaemonError):
    """The daemon has too many requests. The client may retry later."""


class DeadlineError(DaemonError):
    """A request passed its deadline or was canceled."""


class ShutdownTimeoutError(DaemonError):
    """A thread of the daemon did not end in time."""
