"""Translate plain text by a store as it is now, the corrections of people first."""

import threading
from dataclasses import dataclass
from functools import cache
from itertools import islice
from math import exp, log
from typing import TYPE_CHECKING, Any
from unicodedata import normalize

from hierogram.daemon.answering.corrections import Corrections
from hierogram.daemon.corpora.texts import TextPipeline, pipeline_of
from hierogram.daemon.decoding.options import TranslateOptions
from hierogram.samplers.grammar.kinds import SOURCE, TARGET
from hierogram.storage.browsing.reader import Reader
from hierogram.storage.browsing.search import known_words
from hierogram.storage.store import Store

if TYPE_CHECKING:
    from hierogram.daemon.decoding.opening import Follower
    from hierogram.daemon.decoding.translating import Translator

TEXT, HTML = "text", "html"
FORMS = (TEXT, HTML)

_MOST_WORDS_LOOKED_UP = 400
_WORD_ODDS = 3.0
"""Most that one word says of which language a text is in, in natural logarithms."""
_MOST_ODDS = 20.0


@dataclass(frozen=True, slots=True)
class PlainTranslation:
    """A text's translation, and other ones, best first."""

    text: str
    alternatives: list[str]


class PlainTranslator:
    """Translates texts as people write them; may be used from several threads at once.

    What somebody corrected word for word is said as it was corrected. All that is needed is read at the first text.
    """

    def __init__(self, store: Store, reader: Reader, options: TranslateOptions, corrections: Corrections) -> None:
        self._store = store
        self._reader = reader
        self._options = options
        self._corrections = corrections
        self._lock = threading.Lock()
        self._follower: Follower | None = None

    def translate(self, text: str, alternatives: int = 0, form: str = TEXT) -> PlainTranslation:
        """Translate a text, with up to so many other translations.

        Raises `NothingLearnedError`, `WrongKindError`, `InputError` and `StoreError`.
        """
        if not text.strip():
            return PlainTranslation(text, [])
        corrected = self._corrections.known(text)
        found = [] if corrected is None else [plain(corrected, pipeline_of(self._store.settings()))]
        if alternatives or not found:
            found += translated(self._now(), text, alternatives + 1, form)
        best, *others = dict.fromkeys(found)
        return PlainTranslation(best, others[:alternatives])

    def _now(self) -> "Translator":
        from hierogram.daemon.decoding.opening import Follower, equip

        with self._lock:
            if self._follower is None:
                self._follower = Follower(self._store, equip(self._options))
        return self._follower.now()[0]

    def detect(self, text: str) -> list[tuple[str, float]]:
        """Return the store's languages, the likelier one of the text first, and the probability of each.

        It is by how often pairs have the text's words on each side; the same where they have none of them.
        """
        with self._reader.look() as look:
            settings = look.settings()
            texts = pipeline_of(settings)
            words = [side.tokens(text).split() for side in (texts.source, texts.target)]
            spelled = dict.fromkeys(form for own in words for word in own for form in (word, word.lower()))
            asked = list(islice(spelled, _MOST_WORDS_LOOKED_UP))
            known = known_words(look, asked)
        odds = 0.0
        for word in asked:
            counts = [known[side][word].count if word in known.get(side, ()) else 0 for side in (SOURCE, TARGET)]
            told = log((counts[0] + 0.5) / (counts[1] + 0.5))
            odds += max(-_WORD_ODDS, min(_WORD_ODDS, told))
        source = 1 / (1 + exp(-max(-_MOST_ODDS, min(_MOST_ODDS, odds))))
        found = zip(settings.languages or (), (source, 1 - source), strict=False)
        return sorted(found, key=lambda one: -one[1])


def translated(translator: "Translator", text: str, best: int, form: str) -> list[str]:
    """Translate a text line by line; return at most `best` translations, the k-th of all its lines together."""
    lines: list[list[str]] = []
    for line in normalize("NFC", text).split("\n"):
        found = translator.translate(line, best, distinct=True)
        lines.append([plain(candidate.text, translator.texts) for candidate in found.candidates] or [line])
    most = max(map(len, lines))
    return ["\n".join(own[min(k, len(own) - 1)] for own in lines) for k in range(most)]


def plain(tokens: str, texts: TextPipeline) -> str:
    """Return tokens of the target side as people write them, where the store divides text."""
    language = texts.target.language
    return tokens if language is None else str(_detokenizer(language).detokenize(tokens.split()))


@cache
def _detokenizer(language: str) -> Any:
    from sacremoses import MosesDetokenizer

    return MosesDetokenizer(lang=language)
