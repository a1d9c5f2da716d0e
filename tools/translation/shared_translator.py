"""The store's grammar for translating, which API and pages share."""

from typing import TYPE_CHECKING

from hierogram.daemon.exceptions import InputError, WrongKindError
from hierogram.daemon.web.protocol.problems import try_later
from hierogram.tools.translation.plain_text import FollowedGrammar

if TYPE_CHECKING:
    from hierogram.tools.translation.text_translator import TextTranslator

_RETRY_SECONDS = 10


class Translations(FollowedGrammar):
    """Follows a store, and says to those who ask what the configuration lacks."""

    def now(self) -> "tuple[TextTranslator, int]":
        """See `FollowedGrammar.now`; raises `ProblemError` where what the configuration names cannot be read."""
        try:
            return super().now()
        except WrongKindError:
            raise
        except InputError as error:
            raise try_later(f"[translating] of the configuration: {error}", _RETRY_SECONDS) from error
