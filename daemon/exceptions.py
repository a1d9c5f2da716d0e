"""Name what can go wrong in the daemon; every message says what was wrong, where, and what to do."""


class DaemonError(Exception):
    """Base of everything that the daemon raises on purpose; the command line ends with exit code 3."""


class UsageError(DaemonError):
    """A command was given options that do not go together; the command line ends with exit code 2."""


class ClusterLostError(DaemonError):
    """The cluster of workers is gone, not only one of them."""


class SpoolError(DaemonError):
    """The spool's folder cannot be read, or a file in it cannot be moved."""


class InputError(DaemonError):
    """An input cannot be opened, ends in the middle, or its format cannot be told."""


class WrongKindError(InputError):
    """A store's kind of grammar does not take what is offered."""


class TooManyRejectedError(InputError):
    """More of an input was rejected than may be: it is set apart as a whole."""


class ExportError(DaemonError):
    """An export cannot be written where it should go."""


class NothingLearnedError(DaemonError):
    """A store has no rules yet, because nothing was learned from its pairs, or there are none."""

    def __init__(self, store: str) -> None:
        super().__init__(f"{store}: nothing is learned yet: run `hierogram learn`")


class AlignerUntrainedError(DaemonError):
    """A store's aligner has counted no links yet."""


class BusyError(DaemonError):
    """There is too much to do for one request more; it may be sent again later."""


class DeadlineError(DaemonError):
    """Work took longer than it may, or nobody needs its result any longer."""


class LateError(DaemonError):
    """A thread of the daemon has not ended in time, and may never do."""


def install_extra(extra: str) -> str:
    """Return the instruction to install optional dependencies, for messages."""
    return f"run pip install '.[{extra}]' in the clone of hierogram"
