"""Word alignment model of sil-machine backed by a store, which keeps it between drafts.

Results depend only on the pairs and links in the store.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterable, Sequence
from functools import cached_property
from typing import Any, overload

from machine.corpora import ParallelTextCorpus, ParallelTextRow
from machine.translation import Trainer, TrainStats, WordAlignmentMatrix, WordAlignmentModel
from machine.translation.transductive_word_alignment_model import TransductiveWordAlignmentModel
from machine.translation.word_vocabulary import WordVocabulary
from machine.utils import ProgressStatus

from hierogram.daemon.learning.alignment.evaluation import parse_links
from hierogram.daemon.library.store import open as open_grammar
from hierogram.storage.browsing.details import PairDetails, iterate_pairs
from hierogram.storage.exceptions import StoreMissingError

NULL = "NULL"
"""Vocabulary entry for no word, at index 0."""
MAX_TOKENS = 300
_CORPUS = "machine"
_AT_ONCE = 100


class MachineVocabulary(WordVocabulary):
    """Vocabulary of one side: `NULL`, then words by descending frequency."""

    def __init__(self, counts: Counter[str]) -> None:
        self._words = [NULL, *(word for word, _ in sorted(counts.items(), key=lambda item: (-item[1], item[0])))]
        self._numbers = {word: number for number, word in enumerate(self._words)}

    def index(self, word: str | None, *_bounds: int) -> int:
        """Return a word's index, or 0 for None and for unknown words."""
        return 0 if word is None else self._numbers.get(word, 0)

    @overload
    def __getitem__(self, number: int) -> str: ...
    @overload
    def __getitem__(self, number: slice) -> Sequence[str]: ...
    def __getitem__(self, number: int | slice) -> str | Sequence[str]:
        """Return the word at an index, or the words of a slice."""
        return self._words[number]

    def __len__(self) -> int:
        return len(self._words)


class MachineModel(WordAlignmentModel, TransductiveWordAlignmentModel):
    """Word alignment model backed by a store; a context manager that closes the store.

    Training rows become pairs of `corpus`, whose external ids are text ids with references. A later draft is trained
    into the same store: unchanged rows keep their links, changed rows are withdrawn and stored again, and new rows are
    aligned with the counts of all rows. `lowered` only applies to a new store: it aligns lower-case words.
    """

    def __init__(self, url: str, corpus: str = _CORPUS, *, lowered: bool = True, threads: int | None = None) -> None:
        chosen: dict[str, Any] = {"case": "lowered"} if lowered else {}
        try:
            self.store = open_grammar(url)
        except StoreMissingError:
            self.store = open_grammar(url, create=True, max_tokens=MAX_TOKENS, **chosen)
        self.corpus = corpus
        self._threads = threads
        self._trained: list[tuple[int | None, int, int]] | None = None
        self._lowered = self.store.settings().case == "lowered"

    def create_trainer(self, corpus: ParallelTextCorpus) -> MachineTrainer:
        """Return a trainer that trains this model with a corpus."""
        return MachineTrainer(self, corpus, self._threads)

    def align(self, source_segment: Sequence[str], target_segment: Sequence[str]) -> WordAlignmentMatrix:
        """Align a pair with the current counts, without storing it. Raises `AlignerUntrainedError`."""
        return next(iter(self.align_batch([(source_segment, target_segment)])))

    def align_batch(self, segments: Sequence[Sequence[Sequence[str]]]) -> Sequence[WordAlignmentMatrix]:
        """Align several pairs independently. A pair gets no links if a side is empty or longer than `MAX_TOKENS`."""
        matrices: list[WordAlignmentMatrix] = []
        for start in range(0, len(segments), _AT_ONCE):
            chunk = [
                (clean_tokens(source), clean_tokens(target)) for source, target in segments[start : start + _AT_ONCE]
            ]
            alignable = [pair for pair in chunk if all(0 < len(side) <= MAX_TOKENS for side in pair)]
            texts = [self._texts(*pair) for pair in alignable]
            answers = iter(self.store.aligner.align_texts(texts)[1] if texts else ())
            for source, target in chunk:
                links = next(answers).links if (source, target) in alignable else []
                matrices.append(WordAlignmentMatrix.from_word_pairs(len(source), len(target), links))
        return matrices

    def _texts(self, source: Sequence[str], target: Sequence[str]) -> tuple[str, str]:
        texts = " ".join(source), " ".join(target)
        return (texts[0].lower(), texts[1].lower()) if self._lowered else texts

    @property
    def training_alignment_count(self) -> int:
        """Number of rows of the last training, or of pairs in the corpus if there was no training."""
        return len(self._rows)

    def get_training_alignment(self, n: int) -> WordAlignmentMatrix:
        """Return the stored links of training row `n`."""
        pair, sources, targets = self._rows[n]
        rows = self.store.store.pairs_by_id([pair]) if pair is not None else []
        links = [link for row in rows for link in parse_links(row.alignment)]
        return WordAlignmentMatrix.from_word_pairs(sources, targets, links)

    @property
    def _rows(self) -> list[tuple[int | None, int, int]]:
        """Pair id (None if the row is not stored) and token counts of both sides, for each row."""
        if self._trained is None:
            self._trained = [
                (pair.id, pair.source.count(" ") + 1, pair.target.count(" ") + 1) for pair in self.stored()
            ]
        return self._trained

    def stored(self) -> list[PairDetails]:
        """Return the stored pairs of the corpus."""
        with self.store.reader.read() as transaction:
            return list(iterate_pairs(transaction, self.corpus))

    def trained(self, rows: list[tuple[int | None, int, int]]) -> None:
        """Set the rows of the last training and clear cached counts."""
        self._trained = rows
        for derived in ("_tables", "source_words", "target_words"):
            self.__dict__.pop(derived, None)

    @cached_property
    def source_words(self) -> MachineVocabulary:
        """Vocabulary of source sides."""
        return MachineVocabulary(self._tables[0])

    @cached_property
    def target_words(self) -> MachineVocabulary:
        """Vocabulary of target sides."""
        return MachineVocabulary(self._tables[1])

    @property
    def special_symbol_indices(self) -> Collection[int]:
        """Indices of special symbols: only `NULL`."""
        return {0}

    @cached_property
    def _tables(self) -> tuple[Counter[str], Counter[str], dict[str, Counter[str]]]:
        """Counts of source words, of target words, and of linked target words by source word, including `NULL`."""
        sources: Counter[str] = Counter()
        targets: Counter[str] = Counter()
        links: dict[str, Counter[str]] = defaultdict(Counter)
        after = 0
        while rows := self.store.store.pairs(after, 10_000):
            for row in rows:
                source, target = row.source.split(" "), row.target.split(" ")
                sources.update(source)
                targets.update(target)
                linked = set()
                for i, j in parse_links(row.alignment):
                    links[source[i]][target[j]] += 1
                    linked.add(j)
                links[NULL].update(word for j, word in enumerate(target) if j not in linked)
            after = rows[-1].id
        return sources, targets, links

    def _word(self, word: str | int | None, words: MachineVocabulary) -> str:
        if word is None:
            return NULL
        if isinstance(word, int):
            return words[word]
        return word.lower() if self._lowered and word != NULL else word

    def get_translations(self, source_word: str | int | None, threshold: float = 0) -> Iterable[tuple[int, float]]:
        """Yield `(index, share)` of target words whose share of the source word's links exceeds the threshold."""
        counts = self._tables[2].get(self._word(source_word, self.source_words), Counter())
        total = sum(counts.values())
        for word, count in counts.most_common():
            if count / total > threshold:
                yield self.target_words.index(word), count / total

    def get_translation_score(self, source_word: str | int | None, target_word: str | int | None) -> float:
        """Return the target word's share of the source word's links."""
        counts = self._tables[2].get(self._word(source_word, self.source_words), Counter())
        total = sum(counts.values())
        return counts[self._word(target_word, self.target_words)] / total if total else 0.0

    def close(self) -> None:
        """Close the store."""
        self.store.close()


class MachineTrainer(Trainer):
    """Trainer of a `MachineModel`. It stores its rows as pairs and aligns them together."""

    def __init__(self, model: MachineModel, corpus: ParallelTextCorpus, threads: int | None = None) -> None:
        self._model = model
        self._corpus = corpus
        self._threads = threads
        self._stats = TrainStats()

    def train(
        self,
        progress: Callable[[ProgressStatus], None] | None = None,
        check_canceled: Callable[[], None] | None = None,
    ) -> None:
        """Store and align new and changed rows. Unchanged rows keep their links."""
        model, store = self._model, self._model.store
        with self._corpus.get_rows() as corpus_rows:
            rows = [
                (_name(row), clean_tokens(row.source_segment), clean_tokens(row.target_segment)) for row in corpus_rows
            ]
        texts_by_name = {name: model._texts(source, target) for name, source, target in rows if source and target}
        before = {pair.external_id: pair for pair in model.stored()}
        unchanged = {
            name for name, pair in before.items() if name and texts_by_name.get(name) == (pair.source, pair.target)
        }
        changed = [pair.id for name, pair in before.items() if name in texts_by_name and name not in unchanged]
        if changed:
            store.withdraw(changed)
        new = (
            {"source": s, "target": t, "id": name} for name, (s, t) in texts_by_name.items() if name not in unchanged
        )
        store.add(new, corpus=model.corpus, origin="machine")

        def hear(done: int, total: int) -> None:
            if check_canceled is not None:
                check_canceled()
            if progress is not None:
                progress(ProgressStatus.from_step(done, max(total, 1)))

        store.learn(threads=self._threads).align(hear)
        numbers = {pair.external_id: pair.id for pair in model.stored()}
        model.trained([(numbers.get(name), len(source), len(target)) for name, source, target in rows])
        self._stats.train_corpus_size = len(texts_by_name)

    def save(self) -> None:
        """Do nothing, because training writes to the store."""

    @property
    def stats(self) -> TrainStats:
        """Statistics of the last training."""
        return self._stats


def clean_tokens(segment: Sequence[str]) -> list[str]:
    """Return tokens in which white space is replaced by a no-break space, because stores separate tokens by spaces."""
    return ["\u00a0".join(token.split()) or "\u00a0" for token in segment]


def _name(row: ParallelTextRow) -> str:
    return f"{row.text_id}:{row.ref}"
