"""Translation objects of the web server, shared by routes, pages and protocols."""

from typing import TYPE_CHECKING

from hierogram.daemon.exceptions import InputError, WrongKindError
from hierogram.daemon.web.protocol.context import WebContext
from hierogram.daemon.web.protocol.problems import try_later
from hierogram.tools.translation.corrections import Corrections
from hierogram.tools.translation.options import DecodingOptions
from hierogram.tools.translation.plain_text import CurrentTranslator, PlainTranslator

if TYPE_CHECKING:
    from hierogram.tools.translation.text_translator import TextTranslator


_RETRY_SECONDS = 10


class WebTranslation:
    """Translator with the store's grammar, and the store's corrections, shared by all request handlers."""

    def __init__(self, context: WebContext) -> None:
        opened = context.service.grammar_store
        self.corrections = Corrections(opened, context.service.withdraw)
        options = context.configuration.section(DecodingOptions).to_translate()
        self.current = CurrentTranslator(opened.store, options, self.corrections)
        self.translator = PlainTranslator(opened.store, lambda: self.newest()[0])

    def newest(self) -> "tuple[TextTranslator, int]":
        """Return the translator and its store position. Raises `ProblemError` if a resource cannot be read."""
        try:
            return self.current.newest()
        except WrongKindError:
            raise
        except InputError as error:
            raise try_later(f"[translating] of the configuration: {error}", _RETRY_SECONDS) from error
