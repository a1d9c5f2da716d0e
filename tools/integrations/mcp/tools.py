"""MCP tools without the protocol. They return short answers for language models."""

from collections.abc import Sequence
from dataclasses import dataclass

from hierogram.daemon.exceptions import InputError
from hierogram.daemon.library.store import GrammarStore
from hierogram.daemon.text.pipeline import make_pipeline
from hierogram.daemon.text.segments import WordView
from hierogram.samplers.grammar.kinds import SOURCE, TARGET
from hierogram.storage.browsing.reader import ReadTransaction
from hierogram.storage.browsing.words import pairs_containing
from hierogram.storage.pairs.vocabulary import known_words
from hierogram.tools.evidence.options import candidate_limits
from hierogram.tools.evidence.sanitizing import clean_text
from hierogram.tools.translation.corrections import Corrections
from hierogram.tools.translation.plain_text import PlainTranslation, PlainTranslator, check_translation_size

_MAX_SEARCHED = 2_000
"""Maximum number of pairs searched for a phrase: the latest pairs with its rarest word."""


@dataclass(frozen=True)
class LinkedWords:
    """Words of a pair, and links as (source position, target position, probability), from 0."""

    source: list[str]
    target: list[str]
    links: list[tuple[int, int, float]]


@dataclass(frozen=True)
class ConcordanceLine:
    """Stored pair that contains a phrase."""

    pair: int
    source: str
    target: str


@dataclass(frozen=True)
class TermSummary:
    """Term with its usual rendering, the number of pairs with both, and the number of pairs with the term."""

    source: str
    target: str
    pairs: int
    source_pairs: int


class McpTools:
    """MCP tools for one store. Thread-safe."""

    def __init__(self, store: GrammarStore, translator: PlainTranslator, corrections: Corrections) -> None:
        self._store = store
        self._translator = translator
        self._corrections = corrections

    def evidence(self, sentence: str, characters: int) -> str:
        """Return up to `characters` characters of evidence, marked as data. Raises `InputError`."""
        from hierogram.tools.evidence.budget import fit_budget
        from hierogram.tools.evidence.retrieval import find_evidence

        with self._store.reader.read() as transaction:
            pipeline = make_pipeline(transaction.settings())
            tokens = pipeline.with_whole_words().for_running_text().source.tokens(sentence)
            evidence = find_evidence(transaction, tokens, candidate_limits(tokenized=True))
            return fit_budget(evidence, characters, pipeline)

    def translate(self, text: str, alternatives: int, format: str) -> PlainTranslation:
        """Translate a text. Raises `DaemonError` or `StoreError`."""
        check_translation_size([text], alternatives + 1)
        translation = self._translator.translate(text, alternatives, format)
        best, *further = (
            "\n".join(map(clean_text, alternative.split("\n")))
            for alternative in (translation.text, *translation.alternatives)
        )
        return PlainTranslation(best, further)

    def align(self, source: str, target: str) -> LinkedWords:
        """Align a pair without storing it. Raises `AlignerUntrainedError` or `InputError`."""
        aligner = self._store.aligner
        _, [pair] = aligner.align_texts([aligner.pipeline.for_running_text().pair(source, target)])
        links = [(i, j, round(float(pair.posterior[i, j]), 3)) for i, j in pair.links]
        return LinkedWords(list(map(clean_text, pair.source)), list(map(clean_text, pair.target)), links)

    def terms(self, containing: str, limit: int) -> list[TermSummary]:
        """Return up to `limit` terms that contain a text on either side, best first. Raises `InputError`."""
        from hierogram.tools.terms.extraction import terms
        from hierogram.tools.terms.options import MAX_TERMS

        report = terms(self._store, top=MAX_TERMS, min_words=1)
        report = report.as_text(make_pipeline(self._store.store.settings()).with_whole_words())
        return [
            TermSummary(clean_text(term.source), clean_text(term.target), term.pairs, term.source_pairs)
            for term in report.terms
            if containing.lower() in f"{term.source}\n{term.target}".lower()
        ][:limit]

    def concordance(self, phrase: str, limit: int) -> list[ConcordanceLine]:
        """Return the latest pairs with a phrase in the source, or else in the target. Raises `InputError`."""
        with self._store.reader.read() as transaction:
            pipeline = make_pipeline(transaction.settings()).with_whole_words().for_running_text()
            for name, side in ((SOURCE, pipeline.source), (TARGET, pipeline.target)):
                words = side.tokens(phrase).split()
                if not words:
                    raise InputError("the phrase has no words")
                if pairs := _find_phrase(transaction, name, words, limit):
                    return [
                        ConcordanceLine(
                            pair_id,
                            clean_text(pipeline.source.detokenize_stored(source)),
                            clean_text(pipeline.target.detokenize_stored(target)),
                        )
                        for pair_id, source, target in pairs
                    ]
        return []

    def add_pair(self, source: str, target: str) -> int:
        """Store a translation as a correction and return the pair's id. Raises `InputError` if it is invalid."""
        return self._corrections.put(source, target, "mcp").pair


def _find_phrase(
    transaction: ReadTransaction, side: str, words: Sequence[str], limit: int
) -> list[tuple[int, str, str]]:
    view = WordView(transaction.settings().word_parts)
    vocabulary = known_words(transaction.connection, words)[side]
    if len(vocabulary) < len(set(words)) and not view.word_parts:
        return []
    # A subword store has no word counts, so assume that the longest word is the rarest.
    rarest = max(words, key=len) if view.word_parts else min(words, key=lambda word: vocabulary[word].count)
    phrase = f" {' '.join(words)} "
    pairs = [
        (row.id, view.line(row.source), view.line(row.target))
        for row in pairs_containing(transaction, side, view.parts(side == TARGET, rarest), _MAX_SEARCHED)
    ]
    return [pair for pair in pairs if phrase in f" {pair[1 + (side == TARGET)]} "][:limit]
