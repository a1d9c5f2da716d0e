"""Grammar of the store for translation, shared by the API and pages."""

from typing import TYPE_CHECKING

from hierogram.daemon.exceptions import InputError, WrongKindError
from hierogram.daemon.web.protocol.problems import try_later
from hierogram.tools.translation.plain_text import FollowedGrammar

if TYPE_CHECKING:
    from hierogram.tools.translation.text_translator import TextTranslator

_RETRY_SECONDS = 10


class Translations(FollowedGrammar):
    """Followed grammar that reports configuration errors as problems of the API."""

    def now(self) -> "tuple[TextTranslator, int]":
        """Return `FollowedGrammar.now()`. Raises `ProblemError` if a configured resource cannot be read."""
        try:
            return super().now()
        except WrongKindError:
            raise
        except InputError as error:
            raise try_later(f"[translating] of the configuration: {error}", _RETRY_SECONDS) from error
