"""Translation objects of the web server, shared by routes, pages and protocols."""

from hierogram.daemon.web.protocol.context import WebContext
from hierogram.tools.translation.corrections import Corrections
from hierogram.tools.translation.options import DecodingOptions
from hierogram.tools.translation.plain_text import PlainTranslator
from hierogram.tools.translation.shared_translator import Translations


class WebTranslation:
    """Translator of the store's grammar and store of corrections, shared by everything that answers requests."""

    def __init__(self, context: WebContext) -> None:
        opened = context.service.store
        self.corrections = Corrections(opened, context.service.withdraw)
        options = context.section("translating", DecodingOptions).to_translate()
        self.translations = Translations(opened.store, options, self.corrections)
        self.translator = PlainTranslator(opened.store, lambda: self.translations.now()[0])
