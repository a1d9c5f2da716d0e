"""The loop that takes in what lies in the spool."""

import os
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path

from hierogram.daemon.child import Child
from hierogram.daemon.configuration import Configuration
from hierogram.daemon.corpora.reading import Handling
from hierogram.daemon.corpora.texts import LOOKS_RUNNING, pipeline_of, two_languages
from hierogram.daemon.exceptions import ChildUnavailableError, DaemonError, InputError, SpoolError, UsageError
from hierogram.daemon.files import readable
from hierogram.daemon.serving.health import Board
from hierogram.daemon.serving.logs import Log
from hierogram.daemon.serving.spool import (
    FileStuckError,
    Offer,
    StoppedError,
    Taking,
    Waiting,
    identity,
    move_done,
    offers,
    prepare,
    set_apart,
    take_in,
)
from hierogram.daemon.serving.supervision import Heart, StopFlag
from hierogram.storage.exceptions import LeaseLostError, StoreHeldError, StoreRefusedError, StoreUnavailableError
from hierogram.storage.store import Store

_ATTEMPTS = 2
"""A file whose reading fails so many times, for whatever reason, is set apart."""

_NOT_THE_FILES = (StoreUnavailableError, StoreHeldError, LeaseLostError, ChildUnavailableError, SpoolError)
"""What no other file would fare better with."""


class Intake:
    """Watches the spool; without one, it has nothing to do."""

    name = "ingest"
    sections = frozenset({"spool", "intake"})

    def __init__(self, store: Store, configuration: Callable[[], Configuration], board: Board, log: Log) -> None:
        self._store = store
        self._configuration = configuration
        self._board = board
        self._log = log.bind(loop=self.name)
        self._taking = Taking()
        self._waiting: set[Waiting] = set()
        self._told: set[Waiting] = set()
        self._failures: dict[object, int] = {}
        self._stuck: dict[object, Waiting] = {}

    def prepare(self, configuration: Configuration) -> None:
        """Makes the spool's folders; raises `SpoolError` where that cannot be, or its languages are not the store's."""
        folder = configuration.spool.folder
        if folder is not None:
            prepare(folder)
            self._handling(configuration)

    def _handling(self, configuration: Configuration) -> Handling:
        """How files are taken in by a configuration; raises `SpoolError` where the store cannot have them so."""
        section, settings = configuration.spool, self._store.settings()
        try:
            languages = two_languages(section.languages, "languages") if section.languages else None
            tokenize = None
            if section.tokenize:
                tokenize = languages or pipeline_of(settings).languages
                if tokenize is None:
                    raise UsageError('tokenize needs languages, as in languages = "fr,en"')
            pipeline_of(settings, languages, tokenize)
        except UsageError as error:
            raise SpoolError(f"spool: {error}") from error
        return Handling(languages, tokenize, configuration.intake.limits())

    def run(self, stop: StopFlag, beat: Heart) -> None:
        """Takes in one file after the other, oldest first; see `Loop.run`."""
        configuration = self._configuration()
        section = configuration.spool
        folder = section.folder
        child = Child(configuration.intake.reader_memory_bytes, configuration.intake.reader_seconds)
        with closing(child):
            if folder is not None:
                prepare(folder)
                handling = self._handling(configuration)
                self._taking = Taking(section.corpus, handling, stop.is_set, beat, child)
            while not stop.is_set():
                if folder is not None:
                    busy = self._look(folder, section.unaligned_after, stop, beat)
                    if not busy:
                        child.close()
                beat.well()
                stop.wait(section.poll_seconds)

    def _look(self, folder: Path, unaligned_after: float | None, stop: StopFlag, beat: Heart) -> bool:
        """Takes in what lies there now; whether there was anything."""
        found, incomplete = offers(folder, unaligned_after)
        known = {offer: identity(offer) for offer in found}
        there = set(known.values())
        self._stuck = {key: stuck for key, stuck in self._stuck.items() if key in there}
        self._failures = {key: times for key, times in self._failures.items() if key in there}
        self._tell([*incomplete, *self._stuck.values()])
        found = [offer for offer in found if known[offer] not in self._stuck]
        waiting = sum(len(files.files) for files in (*incomplete, *self._stuck.values()))
        for done, offer in enumerate(found):
            self._board.spool = replace(self._board.spool, waiting=len(found) - done + waiting)
            if stop.is_set():
                return True
            self._take(folder, offer)
            beat.well()
        self._board.spool = replace(self._board.spool, waiting=waiting)
        return bool(found)

    def _tell(self, waiting: Sequence[Waiting]) -> None:
        """Says which files wait, and why: in the status at once, in the log once, if they still do on a second look.

        Those of an input come one after the other, and may be about to.
        """
        waiting = sorted(waiting, key=lambda files: files.files)
        self._board.spool = replace(self._board.spool, incomplete=tuple(files.told for files in waiting))
        now = set(waiting)
        for files in waiting:
            if files in self._waiting and files not in self._told:
                self._log.warning("files wait for others", files=list(files.files), reason=files.told)
        self._told = now & (self._told | self._waiting)
        self._waiting = now

    def _take(self, folder: Path, offer: Offer) -> None:
        key = identity(offer)
        try:
            self._take_in(folder, offer, key)
        except FileStuckError as error:
            # It would be taken in, and stay, again and again.
            self._stuck[key] = Waiting((offer.name,), str(error))
            self._log.error("file left where it is", file=offer.name, reason=str(error))

    def _take_in(self, folder: Path, offer: Offer, key: object) -> None:
        try:
            report = take_in(self._store, offer, self._taking)
        except FileNotFoundError:
            self._log.warning("file vanished before it was read", file=offer.name)
        except StoppedError:
            self._log.info("file left for the next start", file=offer.name)
        except (InputError, UsageError) as error:
            self._set_apart(folder, offer, str(error))
        except StoreRefusedError as error:
            self._fail(folder, offer, key, error)
        except _NOT_THE_FILES:
            raise
        except Exception as error:
            self._fail(folder, offer, key, error)
        else:
            self._failures.pop(key, None)
            move_done(folder, offer)
            self._board.spool = replace(self._board.spool, done=self._board.spool.done + 1)
            self._log.info(
                "file taken in",
                file=offer.name,
                corpus=report.corpus,
                accepted=report.totals.accepted,
                duplicates=report.totals.duplicates,
                rejected=report.totals.rejected,
                reasons=dict(report.reasons),
                seconds=round(report.seconds, 3),
            )
            if report.running:
                self._log.warning(
                    "text is not divided into tokens",
                    file=offer.name,
                    reason=LOOKS_RUNNING,
                    remedy='tokenize = true and languages = "fr,en" in [spool], or a store made with --tokenize',
                )

    def _fail(self, folder: Path, offer: Offer, key: object, error: Exception) -> None:
        """Reading or storing a file has failed, not by what the file says: once it may be chance."""
        times = self._failures.get(key, 0) + 1
        said = readable(str(error) or type(error).__name__)
        # What was raised on purpose says all in its message.
        trace = None if isinstance(error, DaemonError) else error
        if times < _ATTEMPTS:
            self._failures[key] = times
            self._log.warning("reading failed, is tried again", file=offer.name, reason=said, exc_info=trace)
        else:
            self._failures.pop(key, None)
            reason = f"{readable(str(offer.paths[0]))}: {said} ({times} times)"
            self._set_apart(folder, offer, reason, trace)

    def _set_apart(self, folder: Path, offer: Offer, reason: str, trace: Exception | None = None) -> None:
        if not all(os.path.lexists(path) for path in offer.paths):
            self._log.warning("file vanished while it was read", file=offer.name)
            return
        set_apart(folder, offer, reason)
        self._board.spool = replace(self._board.spool, failed=self._board.spool.failed + 1)
        self._log.warning("file set apart", file=offer.name, reason=readable(reason), exc_info=trace)
