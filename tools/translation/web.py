"""Translator of the web server, shared by routes, pages and protocols."""

from typing import TYPE_CHECKING

from hierogram.daemon.exceptions import InputError, WrongKindError
from hierogram.daemon.web.protocol.context import WebContext
from hierogram.daemon.web.protocol.problems import try_later
from hierogram.tools.translation.options import DecodingOptions
from hierogram.tools.translation.plain_text import StoreTranslator

if TYPE_CHECKING:
    from hierogram.tools.translation.text_translator import TextTranslator


_RETRY_SECONDS = 10


class WebTranslator(StoreTranslator):
    """Translator with the grammar of the served store, shared by all request handlers."""

    def __init__(self, context: WebContext) -> None:
        options = context.configuration.section(DecodingOptions).to_translate()
        super().__init__(context.service.grammar_store, options, context.service.withdraw)

    def newest(self) -> "tuple[TextTranslator, int]":
        """Return the translator and its store position. Raises `ProblemError` if a resource cannot be read."""
        try:
            return super().newest()
        except WrongKindError:
            raise
        except InputError as error:
            raise try_later(f"[translating] of the configuration: {error}", _RETRY_SECONDS) from error
