"""The store's grammar for translating, which API and pages share; it is read at the first request."""

import threading
from typing import TYPE_CHECKING

from hierogram.daemon.decoding.options import TranslateOptions
from hierogram.daemon.exceptions import InputError, WrongKindError
from hierogram.daemon.web.protocol.problems import try_later
from hierogram.storage.store import Store

if TYPE_CHECKING:
    from hierogram.daemon.decoding.opening import Follower
    from hierogram.daemon.decoding.text_translator import TextTranslator

_RETRY_SECONDS = 10


class Translations:
    """Follows a store; may be used from several threads."""

    def __init__(self, store: Store, options: TranslateOptions) -> None:
        self._store = store
        self._options = options
        self._lock = threading.Lock()
        self._follower: Follower | None = None

    def now(self) -> "tuple[TextTranslator, int]":
        """Return the translator of now, and the store position of its grammar.

        Raises `ProblemError` where what the configuration names cannot be read, `NothingLearnedError`,
        `WrongKindError` and `StoreError`.
        """
        from hierogram.daemon.decoding.opening import Follower, equip
        from hierogram.daemon.decoding.text_translator import TextTranslator

        try:
            with self._lock:
                if self._follower is None:
                    self._follower = Follower(self._store, equip(self._options))
            translator, position = self._follower.now()
        except WrongKindError:
            raise
        except InputError as error:
            raise try_later(f"[translating] of the configuration: {error}", _RETRY_SECONDS) from error
        return TextTranslator(translator), position
