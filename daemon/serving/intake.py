"""The loop that takes in what lies in the spool."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from hierogram.daemon.configuration import Configuration
from hierogram.daemon.corpora.ingest import Handling
from hierogram.daemon.exceptions import InputError
from hierogram.daemon.serving.health import Board
from hierogram.daemon.serving.logs import Log
from hierogram.daemon.serving.spool import Offer, StoppedError, move_done, offers, prepare, set_apart, take_in
from hierogram.daemon.serving.supervision import Heart, StopFlag
from hierogram.storage.store import Store


class Intake:
    """Watches the spool; without one, it has nothing to do."""

    name = "ingest"
    sections = frozenset({"spool", "intake"})

    def __init__(self, store: Store, configuration: Callable[[], Configuration], board: Board, log: Log) -> None:
        self._store = store
        self._configuration = configuration
        self._board = board
        self._log = log.bind(loop=self.name)

    def prepare(self) -> None:
        """Makes the spool's folders; raises `SpoolError` where that cannot be."""
        folder = self._configuration().spool.folder
        if folder is not None:
            prepare(folder)

    def run(self, stop: StopFlag, beat: Heart) -> None:
        """Takes in one file after the other, oldest first; see `Loop.run`."""
        section = self._configuration().spool
        folder = section.folder
        if folder is not None:
            prepare(folder)
        while not stop.is_set():
            if folder is not None:
                self._look(folder, section.corpus, stop, beat)
            beat.well()
            stop.wait(section.poll_seconds)

    def _look(self, folder: Path, corpus: str, stop: StopFlag, beat: Heart) -> None:
        found, incomplete = offers(folder)
        for done, offer in enumerate(found):
            self._board.spool = replace(self._board.spool, waiting=len(found) - done + incomplete)
            if stop.is_set():
                return
            self._take(folder, offer, corpus, stop, beat)
            beat.well()
        self._board.spool = replace(self._board.spool, waiting=incomplete)

    def _take(self, folder: Path, offer: Offer, corpus: str, stop: StopFlag, beat: Heart) -> None:
        try:
            report = take_in(
                self._store, offer, corpus, stop.is_set, beat, Handling(limits=self._configuration().intake.limits())
            )
        except FileNotFoundError:
            self._log.warning("file vanished before it was read", file=offer.name)
        except StoppedError:
            self._log.info("file left for the next start", file=offer.name)
        except InputError as error:
            set_apart(folder, offer, str(error))
            self._board.spool = replace(self._board.spool, failed=self._board.spool.failed + 1)
            self._log.warning("file set apart", file=offer.name, reason=str(error))
        else:
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
