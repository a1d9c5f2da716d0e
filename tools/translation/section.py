"""Section `[translating]` of the configuration."""

from hierogram.daemon.configuration import Section, declared
from hierogram.tools.translation.options import TranslateOptions


class TranslatingSection(Section):
    """Resources that `POST /v1/translate` translates with; the grammar is the store's."""

    lm: str | None = declared(TranslateOptions, "lm")
    weights: str | None = declared(TranslateOptions, "weights")
    glossary: str | None = declared(TranslateOptions, "glossary")
    means: bool = declared(TranslateOptions, "means")
    drawn: bool = declared(TranslateOptions, "drawn")
    min_count: float = declared(TranslateOptions, "min_count")
    max_scope: int = declared(TranslateOptions, "max_scope")
    span: int = declared(TranslateOptions, "span")
    pops: int = declared(TranslateOptions, "pops")
    max_words: int = declared(TranslateOptions, "max_words")

    def options(self) -> TranslateOptions:
        """Return the same as one value."""
        return TranslateOptions(**dict(self))
