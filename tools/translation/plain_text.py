"""Translation of running text with the current grammar of a store. Users' corrections take precedence."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from math import exp
from typing import TYPE_CHECKING

from hierogram.daemon.deadline import restart_deadline
from hierogram.daemon.exceptions import InputError
from hierogram.daemon.library.store import GrammarStore
from hierogram.daemon.text.pipeline import make_pipeline
from hierogram.daemon.text.sides import WordSideCounts
from hierogram.tools.translation.corrections import Corrections, Withdraw
from hierogram.tools.translation.documents import HTML, TEXT
from hierogram.tools.translation.options import TranslateOptions

if TYPE_CHECKING:
    from hierogram.tools.translation.resources import GrammarFollower
    from hierogram.tools.translation.text_translator import TextTranslator

TEXT_FORMATS = (TEXT, HTML)

MAX_TRANSLATED = 250_000
"""Maximum product of the number of characters of a request and the number of translations of each text."""

_MAX_WORDS_LOOKED_UP = 400
_MAX_PAIRS_COUNTED = 50_000
"""Maximum number of pairs counted for language detection in a store of word parts."""
_MAX_LOG_ODDS = 20.0


def check_translation_size(texts: Sequence[str], translations: int) -> None:
    """Raise `InputError` if texts are too long for the requested number of translations of each text."""
    characters = sum(map(len, texts))
    if characters * translations > MAX_TRANSLATED:
        raise InputError(
            f"{translations} translations of {characters:,} characters exceed the limit: the product must be <= "
            f"{MAX_TRANSLATED:,}: split the request"
        )


@dataclass(frozen=True)
class PlainTranslation:
    """Translation of a text, and alternatives, best first."""

    text: str
    alternatives: list[str]


class StoreTranslator:
    """Translator of running text with the newest grammar of a store, which is read on first use. Thread-safe."""

    def __init__(self, opened: GrammarStore, options: TranslateOptions, withdraw: Withdraw | None = None) -> None:
        self.corrections = Corrections(opened, withdraw)
        self._store = opened.store
        self._options = options
        self._lock = threading.Lock()
        self._follower: GrammarFollower | None = None
        self._words = WordSideCounts(opened.store, _MAX_PAIRS_COUNTED)

    def newest(self) -> "tuple[TextTranslator, int]":
        """Return a translator with the newest grammar that was read, and the store position of its last full read."""
        from hierogram.tools.translation.resources import GrammarFollower, load_resources
        from hierogram.tools.translation.text_translator import TextTranslator

        with self._lock:
            if self._follower is None:
                self._follower = GrammarFollower(self._store, load_resources(self._options))
        translator, position = self._follower.newest()
        # The first request reads the whole grammar, which must not count toward the deadline of its text.
        restart_deadline()
        return TextTranslator(translator, self.corrections.find), position

    def language_model(self) -> str | None:
        """Return the name of the language model, or None before the first translation."""
        return None if self._follower is None else self._follower.resources.model_name()

    def languages(self) -> tuple[str, ...]:
        """Return source and target language, or an empty tuple if the store does not define them."""
        return tuple(self._store.settings().languages or ())

    def translate(self, text: str, alternatives: int = 0, format: str = TEXT) -> PlainTranslation:
        """Translate a text, with up to `alternatives` alternative translations."""
        if not text.strip():
            return PlainTranslation(text, [])
        translation = self.newest()[0].translate(text, format=format, alternatives=alternatives)
        best, *further = dict.fromkeys((translation.text, *translation.texts))
        return PlainTranslation(best, further[:alternatives])

    def detect(self, text: str) -> list[tuple[str, float]]:
        """Return the store's languages, likeliest first, with probabilities from the frequencies of words."""
        settings = self._store.settings()
        pipeline = make_pipeline(settings).with_whole_words().for_running_text()
        words = [side.tokens(text).split() for side in (pipeline.source, pipeline.target)]
        spelled = dict.fromkeys(form for text_words in words for word in text_words for form in (word, word.lower()))
        log_odds, _ = self._words.odds(islice(spelled, _MAX_WORDS_LOOKED_UP))
        source = 1 / (1 + exp(-max(-_MAX_LOG_ODDS, min(_MAX_LOG_ODDS, log_odds))))
        shares = zip(settings.languages or (), (source, 1 - source), strict=False)
        return sorted(shares, key=lambda share: -share[1])
