"""Translation of running text with a store's grammar and users' corrections, which take precedence."""

import re
import threading
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from html import escape
from itertools import islice
from math import exp
from typing import TYPE_CHECKING
from unicodedata import normalize

from hierogram.daemon.deadline import restart_deadline
from hierogram.daemon.exceptions import InputError
from hierogram.daemon.library.store import GrammarStore
from hierogram.daemon.text.ingest import check_input_kind, ingest
from hierogram.daemon.text.memory_input import MemoryPairs
from hierogram.daemon.text.pipeline import make_pipeline
from hierogram.daemon.text.protected_spans import TAG
from hierogram.daemon.text.vocabulary_notes import WordSideCounts
from hierogram.samplers.grammar.kinds import PAIRS
from hierogram.storage.browsing.details import find_pairs_by_id_prefix
from hierogram.storage.records.pairs import PairRecord
from hierogram.tools.translation.casing import default_casing, first_cased
from hierogram.tools.translation.documents import HTML, TEXT
from hierogram.tools.translation.options import TranslateOptions

if TYPE_CHECKING:
    from hierogram.tools.translation.resources import GrammarFollower
    from hierogram.tools.translation.text_translator import TextTranslator

CORPUS = "corrections"

_LEADING_TAG = re.compile(rf"\s*{TAG.pattern}")


class Corrections:
    """Corrections of a store, one pair each in the corpus `corrections`. Thread-safe.

    An external id consists of digests of both texts and, if earlier corrections of the text are stored, a number. The
    newest correction of a text is valid. A new correction is stored before the previous correction is withdrawn, so
    that a text never lacks its correction.
    """

    def __init__(self, store: GrammarStore) -> None:
        self._store = store.store
        self._reader = store.reader

    def find(self, text: str, html: bool = False) -> str | None:
        """Return the newest correction of a text, or None. Differences in whitespace are ignored.

        If the text begins with a capital, so does the correction. With `html`, the text is HTML, and a correction of a
        text without markup is escaped.
        """
        pairs = self._find_pairs(text)
        if not pairs:
            return None
        target = make_pipeline(self._store.settings()).for_running_text().target
        written = target.detokenize_stored(pairs[0].target)
        if first_cased(TAG.sub("", text) if html else text).isupper():
            start = 0
            while html and (tag := _LEADING_TAG.match(written, start)):
                start = tag.end()
            written = written[:start] + default_casing(target.language).capitalize(written[start:])
        return escape(written, quote=False) if html and escape(text, quote=False) == text else written

    def put(self, text: str, translation: str, origin: str) -> int:
        """Store a correction that replaces earlier corrections of a text. Returns the id of its pair.

        Raises `InputError` if the pair is rejected, for example because a side is empty or too long.
        """
        check_input_kind(self._store, PAIRS)
        earlier = self._find_pairs(text)
        identifier = _digest(text) + _digest(translation)
        number = 0
        if earlier:
            newest_id = earlier[0].external_id or ""
            if newest_id.startswith(identifier):
                return earlier[0].id
            suffix = newest_id[len(identifier) :]
            number = int(suffix) + 1 if suffix.isdecimal() else 1
        settings = self._store.settings()
        source, target = _normalize_spaces(text), _normalize_spaces(translation)
        if settings.tokenize is False:
            # The store takes tokens, but corrections are running text.
            source, target = make_pipeline(settings).for_running_text().pair(source, target)
        new_pair = MemoryPairs([{"source": source, "target": target, "id": f"{identifier}{number or ''}"}], origin)
        report = ingest(self._store, new_pair, CORPUS)
        if report.first_rejected:
            raise InputError(f"the correction cannot be stored: {report.first_rejected[0].message}")
        newest, *older = self._find_pairs(text)
        if older:
            self._store.request_withdrawals([pair.id for pair in older])
        return newest.id

    def _find_pairs(self, text: str) -> list[PairRecord]:
        with self._reader.read() as transaction:
            return find_pairs_by_id_prefix(transaction, CORPUS, _digest(text))


def _normalize_spaces(text: str) -> str:
    return normalize("NFC", " ".join(text.split()))


def _digest(text: str) -> str:
    """Return the digest of a text with normalized whitespace, 32 hexadecimal digits."""
    return blake2b(_normalize_spaces(text).encode("utf-8", "replace"), digest_size=16).hexdigest()


TEXT_FORMATS = (TEXT, HTML)

MAX_TRANSLATED = 250_000
"""Maximum product of a request's number of characters and its number of translations per text."""

_MAX_WORDS_LOOKED_UP = 400
_MAX_PAIRS_COUNTED = 50_000
"""Maximum number of pairs counted for language detection in a store of word parts."""
_MAX_LOG_ODDS = 20.0
"""Limit of the log-odds of a language, so that `exp` does not overflow."""


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
    """Best translation of a text, and different alternatives, best first."""

    text: str
    alternatives: list[str]


class StoreTranslator:
    """Translator of running text with a store's newest grammar, read on first use. Thread-safe."""

    def __init__(self, opened: GrammarStore, options: TranslateOptions) -> None:
        self.corrections = Corrections(opened)
        self._store = opened.store
        self._options = options
        self._lock = threading.Lock()
        self._follower: GrammarFollower | None = None
        self._words = WordSideCounts(opened.store, _MAX_PAIRS_COUNTED)

    def newest(self) -> "tuple[TextTranslator, int]":
        """Return a translator with the newest grammar read, and the store position of its last full read."""
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
        translation = self.newest()[0].translate(text, format=format, best=alternatives + 1)
        best, *further = dict.fromkeys((translation.text, *translation.texts))
        return PlainTranslation(best, further[:alternatives])

    def detect(self, text: str) -> list[tuple[str, float]]:
        """Return the languages, likeliest first, with probabilities by word frequency. Empty if undefined."""
        settings = self._store.settings()
        pipeline = make_pipeline(settings).with_whole_words().for_running_text()
        words = [word for side in (pipeline.source, pipeline.target) for word in side.tokens(text).split()]
        spelled = dict.fromkeys(form for word in words for form in (word, word.lower()))
        log_odds, _ = self._words.source_log_odds(islice(spelled, _MAX_WORDS_LOOKED_UP))
        source = 1 / (1 + exp(-max(-_MAX_LOG_ODDS, min(_MAX_LOG_ODDS, log_odds))))
        shares = zip(settings.languages or (), (source, 1 - source), strict=False)
        return sorted(shares, key=lambda share: -share[1])
