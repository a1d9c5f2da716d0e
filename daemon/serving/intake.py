"""The loop that takes in what lies in the spool."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

from hierogram.daemon.configuration import Configuration
from hierogram.daemon.corpora.ingest import Handling
from hierogram.daemon.corpora.texts import LOOKS_RUNNING, pipeline_of, two_languages
from hierogram.daemon.exceptions import InputError, SpoolError, UsageError
from hierogram.daemon.serving.health import Board
from hierogram.daemon.serving.logs import Log
from hierogram.daemon.serving.spool import (
    Incomplete,
    Offer,
    StoppedError,
    Taking,
    move_done,
    offers,
    prepare,
    set_apart,
    take_in,
)
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
        self._taking = Taking()
        self._incomplete: set[Incomplete] = set()
        self._told: set[Incomplete] = set()

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
        if folder is not None:
            prepare(folder)
            self._taking = Taking(section.corpus, self._handling(configuration), stop.is_set, beat)
        while not stop.is_set():
            if folder is not None:
                self._look(folder, section.unaligned_after, stop, beat)
            beat.well()
            stop.wait(section.poll_seconds)

    def _look(self, folder: Path, unaligned_after: float | None, stop: StopFlag, beat: Heart) -> None:
        found, incomplete = offers(folder, unaligned_after)
        self._tell(incomplete)
        waiting = sum(len(files.files) for files in incomplete)
        for done, offer in enumerate(found):
            self._board.spool = replace(self._board.spool, waiting=len(found) - done + waiting)
            if stop.is_set():
                return
            self._take(folder, offer)
            beat.well()
        self._board.spool = replace(self._board.spool, waiting=waiting)

    def _tell(self, incomplete: Sequence[Incomplete]) -> None:
        """Says which files wait for others: in the status at once, in the log once, if they still do on a second look.

        Those of an input come one after the other, and may be about to.
        """
        self._board.spool = replace(self._board.spool, incomplete=tuple(files.told for files in incomplete))
        now = set(incomplete)
        for files in sorted(now & self._incomplete - self._told, key=lambda files: files.files):
            self._log.warning("files wait for others", files=list(files.files), reason=files.told)
        self._told = now & (self._told | self._incomplete)
        self._incomplete = now

    def _take(self, folder: Path, offer: Offer) -> None:
        try:
            report = take_in(self._store, offer, self._taking)
        except FileNotFoundError:
            self._log.warning("file vanished before it was read", file=offer.name)
        except StoppedError:
            self._log.info("file left for the next start", file=offer.name)
        except (InputError, UsageError) as error:
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
            if report.running:
                self._log.warning(
                    "text is not divided into tokens",
                    file=offer.name,
                    reason=LOOKS_RUNNING,
                    remedy='tokenize = true and languages = "fr,en" in [spool], or a store made with --tokenize',
                )
