"""Give sil-machine a store as its word alignment model: trained, asked, and kept between drafts.

What it is asked follows from the store's pairs and links, so that a model is as the store is when it is opened.
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

from hierogram.daemon.learning.alignment.evaluation import links_of
from hierogram.daemon.library.store import open as open_grammar
from hierogram.storage.browsing.looking import NamedPair, named_pairs
from hierogram.storage.exceptions import StoreMissingError

NULL = "NULL"
"""Stands for no word in vocabularies, at index 0."""
MOST_TOKENS = 300
_CORPUS = "machine"
_AT_ONCE = 100


class MachineVocabulary(WordVocabulary):
    """The words of a side, the most frequent ones first after `NULL`."""

    def __init__(self, counts: Counter[str]) -> None:
        self._words = [NULL, *(word for word, _ in sorted(counts.items(), key=lambda one: (-one[1], one[0])))]
        self._numbers = {word: number for number, word in enumerate(self._words)}

    def index(self, word: str | None, *_bounds: int) -> int:
        """Return a word's number; 0 for none, and for a word that no pair has."""
        return 0 if word is None else self._numbers.get(word, 0)

    @overload
    def __getitem__(self, number: int) -> str: ...
    @overload
    def __getitem__(self, number: slice) -> Sequence[str]: ...
    def __getitem__(self, number: int | slice) -> str | Sequence[str]:
        """Return the word with a number."""
        return self._words[number]

    def __len__(self) -> int:
        """Return how many words there are, with `NULL`."""
        return len(self._words)


class MachineModel(WordAlignmentModel, TransductiveWordAlignmentModel):
    """A store as a word alignment model; a context manager that closes it.

    Rows that it is trained with are pairs of the corpus `machine`, or another one, whose ids are their texts and
    references. A later draft is trained into the same store: rows that are as they were keep their links, those that
    changed are withdrawn and come again, new ones are aligned by the counts of all. `lowered` counts in a new store.
    """

    def __init__(self, url: str, corpus: str = _CORPUS, *, lowered: bool = True, threads: int | None = None) -> None:
        chosen: dict[str, Any] = {"case": "lowered"} if lowered else {}
        try:
            self.store = open_grammar(url)
        except StoreMissingError:
            self.store = open_grammar(url, create=True, max_tokens=MOST_TOKENS, **chosen)
        self.corpus = corpus
        self._threads = threads
        self._trained: list[tuple[int | None, int, int]] | None = None
        self._lowered = self.store.settings().case == "lowered"

    def create_trainer(self, corpus: ParallelTextCorpus) -> MachineTrainer:
        """Return what trains this model with a corpus."""
        return MachineTrainer(self, corpus, self._threads)

    def align(self, source_segment: Sequence[str], target_segment: Sequence[str]) -> WordAlignmentMatrix:
        """Link the words of a pair, which is not stored, by the counts of now; none where nothing is trained."""
        return next(iter(self.align_batch([(source_segment, target_segment)])))

    def align_batch(self, segments: Sequence[Sequence[Sequence[str]]]) -> Sequence[WordAlignmentMatrix]:
        """Link the words of several pairs, each for itself."""
        found: list[WordAlignmentMatrix] = []
        for start in range(0, len(segments), _AT_ONCE):
            some = [(tokens_of(source), tokens_of(target)) for source, target in segments[start : start + _AT_ONCE]]
            asked = [pair for pair in some if all(0 < len(side) <= MOST_TOKENS for side in pair)]
            answers = iter(self.store.aligner.answer([self._texts(*pair) for pair in asked])[1] if asked else ())
            for source, target in some:
                links = next(answers).links if (source, target) in asked else []
                found.append(WordAlignmentMatrix.from_word_pairs(len(source), len(target), links))
        return found

    def _texts(self, source: Sequence[str], target: Sequence[str]) -> tuple[str, str]:
        texts = " ".join(source), " ".join(target)
        return (texts[0].lower(), texts[1].lower()) if self._lowered else texts

    @property
    def training_alignment_count(self) -> int:
        """Return how many rows it was trained with last, or those of the store before."""
        return len(self._rows)

    def get_training_alignment(self, n: int) -> WordAlignmentMatrix:
        """Return the links of a row that it was trained with, as all pairs together gave them."""
        pair, sources, targets = self._rows[n]
        rows = self.store.store.pairs_by_id([pair]) if pair is not None else []
        links = [link for row in rows for link in links_of(row.alignment)]
        return WordAlignmentMatrix.from_word_pairs(sources, targets, links)

    @property
    def _rows(self) -> list[tuple[int | None, int, int]]:
        """Return of each row its pair, None where it is none, and how many words each side has."""
        if self._trained is None:
            self._trained = [
                (pair.id, pair.source.count(" ") + 1, pair.target.count(" ") + 1) for pair in self.stored()
            ]
        return self._trained

    def stored(self) -> list[NamedPair]:
        """Return the pairs of its corpus."""
        with self.store.reader.look() as look:
            return list(named_pairs(look, self.corpus))

    def trained(self, rows: list[tuple[int | None, int, int]]) -> None:
        """Take over what a trainer did."""
        self._trained = rows
        for derived in ("_tables", "source_words", "target_words"):
            self.__dict__.pop(derived, None)

    @cached_property
    def source_words(self) -> MachineVocabulary:
        """Return the vocabulary of source sides."""
        return MachineVocabulary(self._tables[0])

    @cached_property
    def target_words(self) -> MachineVocabulary:
        """Return the vocabulary of target sides."""
        return MachineVocabulary(self._tables[1])

    @property
    def special_symbol_indices(self) -> Collection[int]:
        """Return the numbers that stand for no word."""
        return {0}

    @cached_property
    def _tables(self) -> tuple[Counter[str], Counter[str], dict[str, Counter[str]]]:
        """Return counts of source words, of target words, and of links by source word, `NULL` among them."""
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
                for i, j in links_of(row.alignment):
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
        """Yield numbers of target words that the word is linked to, and their shares of its links."""
        own = self._tables[2].get(self._word(source_word, self.source_words), Counter())
        total = sum(own.values())
        for word, count in own.most_common():
            if count / total > threshold:
                yield self.target_words.index(word), count / total

    def get_translation_score(self, source_word: str | int | None, target_word: str | int | None) -> float:
        """Return the share of a word's links that go to a target word."""
        own = self._tables[2].get(self._word(source_word, self.source_words), Counter())
        total = sum(own.values())
        return own[self._word(target_word, self.target_words)] / total if total else 0.0

    def close(self) -> None:
        """Close the store."""
        self.store.close()


class MachineTrainer(Trainer):
    """Trains a `MachineModel`: its rows become pairs of the store, which are aligned together."""

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
        """Store what is new or changed, and align it; what was stored before stays as it is."""
        model, store = self._model, self._model.store
        with self._corpus.get_rows() as given:
            rows = [(_name(row), tokens_of(row.source_segment), tokens_of(row.target_segment)) for row in given]
        wanted = {name: model._texts(source, target) for name, source, target in rows if source and target}
        before = {pair.external_id: pair for pair in model.stored()}
        same = {name for name, pair in before.items() if name and wanted.get(name) == (pair.source, pair.target)}
        changed = [pair.id for name, pair in before.items() if name in wanted and name not in same]
        if changed:
            store.withdraw(changed)
        new = ({"source": s, "target": t, "id": name} for name, (s, t) in wanted.items() if name not in same)
        store.add(new, corpus=model.corpus, origin="machine")

        def hear(done: int, total: int) -> None:
            if check_canceled is not None:
                check_canceled()
            if progress is not None:
                progress(ProgressStatus.from_step(done, max(total, 1)))

        store.learn(threads=self._threads).align(hear)
        numbers = {pair.external_id: pair.id for pair in model.stored()}
        model.trained([(numbers.get(name), len(source), len(target)) for name, source, target in rows])
        self._stats.train_corpus_size = len(wanted)

    def save(self) -> None:
        """Do nothing: the store has it."""

    @property
    def stats(self) -> TrainStats:
        """Return how many rows it was trained with."""
        return self._stats


def tokens_of(segment: Sequence[str]) -> list[str]:
    """Return tokens as a store can have them: a space within one becomes a no-break space."""
    return ["\u00a0".join(token.split()) or "\u00a0" for token in segment]


def _name(row: ParallelTextRow) -> str:
    return f"{row.text_id}:{row.ref}"
