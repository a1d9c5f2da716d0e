"""Users' corrections, which are stored as pairs and replace translations of the same text."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from html import escape
from unicodedata import normalize

from hierogram.daemon.exceptions import InputError
from hierogram.daemon.library.store import GrammarStore
from hierogram.daemon.text.ingest import check_input_kind, ingest
from hierogram.daemon.text.memory_input import GivenPairs
from hierogram.daemon.text.pipeline import make_pipeline
from hierogram.daemon.text.protected_spans import TAG
from hierogram.samplers.grammar.kinds import PAIRS
from hierogram.storage.browsing.details import find_pairs_by_id_prefix
from hierogram.storage.records.pairs import PairRecord

CORPUS = "corrections"
"""Name of the corpus that contains the corrections."""

_LEADING_TAG = re.compile(rf"\s*{TAG.pattern}")

Withdraw = Callable[[Sequence[int]], object]
"""Callback that withdraws the pairs with the given ids. It may return before they are withdrawn."""


@dataclass(frozen=True, slots=True)
class TranslationCorrection:
    """Stored correction: the id of its pair, and the ids of the pairs that it replaces."""

    pair: int
    replaced: list[int]


class Corrections:
    """Corrections of a store, one pair each in the corpus `corrections`. Thread-safe.

    External ids begin with a digest of the source text. The newest correction of a text is valid. A new
    correction is stored before the previous correction is withdrawn, so that a text never lacks its correction.
    """

    def __init__(self, store: GrammarStore, withdraw: Withdraw | None = None) -> None:
        self._store = store.store
        self._reader = store.reader
        self._withdraw = withdraw or store.withdraw

    def find(self, text: str, html: bool = False) -> str | None:
        """Return the newest correction of a text, capitalized if the text is, or None. Whitespace is normalized."""
        # Imported here because storing corrections does not need these modules.
        from hierogram.tools.translation.casing import default_casing, first_cased

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

    def put(self, text: str, translation: str, origin: str) -> TranslationCorrection:
        """Store a correction that replaces earlier corrections of a text. Raises `InputError`."""
        check_input_kind(self._store, PAIRS)
        earlier = self._find_pairs(text)
        identifier = _digest(text) + _digest(translation)
        if earlier and earlier[0].external_id == identifier:
            return TranslationCorrection(earlier[0].id, [])
        if any(pair.external_id == identifier for pair in earlier):
            # The same correction was stored before. Withdraw it so that it can be stored again as the newest.
            self._withdraw([pair.id for pair in earlier if pair.external_id == identifier])
        settings = self._store.settings()
        source, target = _normalize_spaces(text), _normalize_spaces(translation)
        if settings.tokenize is False:
            # The store takes tokens, but corrections are running text.
            source, target = make_pipeline(settings).for_running_text().pair(source, target)
        new_pair = GivenPairs([{"source": source, "target": target, "id": identifier}], origin)
        report = ingest(self._store, new_pair, CORPUS)
        if report.first_rejected:
            raise InputError(f"the correction cannot be stored: {report.first_rejected[0].message}")
        newest, *older = self._find_pairs(text)
        outdated = [pair.id for pair in older]
        if outdated:
            self._store.request_withdrawals(outdated)
        return TranslationCorrection(newest.id, outdated)

    def _find_pairs(self, text: str) -> list[PairRecord]:
        with self._reader.read() as transaction:
            return find_pairs_by_id_prefix(transaction, CORPUS, _digest(text))


def _normalize_spaces(text: str) -> str:
    return normalize("NFC", " ".join(text.split()))


def _digest(text: str) -> str:
    """Return half of a correction's id: the digest of a text with normalized whitespace."""
    return blake2b(_normalize_spaces(text).encode("utf-8", "replace"), digest_size=16).hexdigest()
