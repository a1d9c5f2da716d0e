"""Align pairs that are not stored, given the counts of a store. Nothing is written to the store."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from hierogram.daemon.exceptions import AlignerUntrainedError, InputError, WrongKindError
from hierogram.daemon.learning.alignment.aligning import corpus_options, make_direction_tasks
from hierogram.daemon.learning.alignment.options import AlignOptions
from hierogram.daemon.learning.stored_links import NamedCounts, Names, Units, unit_names, words_and_stems
from hierogram.daemon.text.inspection import IN_REQUESTS, text_advice
from hierogram.daemon.text.pipeline import TextPipeline, make_pipeline
from hierogram.samplers.alignment.bitext import read_side
from hierogram.samplers.alignment.chain import make_evidence
from hierogram.samplers.alignment.marginals import DirectionLinks, add_marginals, join_directions, pair_posteriors
from hierogram.samplers.alignment.models.sampler import AlignmentKernel, chain_seed, decode
from hierogram.samplers.alignment.options import POSTERIOR
from hierogram.samplers.alignment.prior_counts import PriorsByUnit
from hierogram.samplers.grammar.kinds import PAIRS, find_grammar_kind
from hierogram.samplers.grammar.known_links import KnownLinks
from hierogram.samplers.grammar.rules import split_line
from hierogram.storage.records.aligner import AlignerCounts, TextAlignerCounts
from hierogram.storage.records.parts import index_words, join_parts
from hierogram.storage.store import Store

_DECIMALS = 5
"""Decimals of probabilities in JSON."""
_CHAINS = 6
"""Number of chains per pair. It is below the default for few pairs, because a client waits."""
_CHAIN_OPTIONS: dict[str, Any] = {"sweeps": 6, "burn_in": 3, "warming": 1, "thinning": 1}

TextPair = tuple[str, str]
"""Source and target text."""


@dataclass(frozen=True, slots=True)
class AlignedPair:
    """Words and links of a pair.

    `forward`, `backward` float32[source words, target words]: posterior probability of each link in the direction that
    gives each target word a source word, and in the reverse direction. `target_links`: most probable source position of
    each target word, or -1, and its probability. `source_links`: the same for source words. `links`: symmetrized links,
    sorted.
    """

    source: list[str]
    target: list[str]
    forward: NDArray[np.float32]
    backward: NDArray[np.float32]
    target_links: DirectionLinks
    source_links: DirectionLinks
    links: list[tuple[int, int]]

    @property
    def posterior(self) -> NDArray[np.float32]:
        """Link probability: mean of both directions, float32[source words, target words]."""
        mean: NDArray[np.float32] = (self.forward + self.backward) / np.float32(2)
        return mean


class TextAligner:
    """Aligner of unstored pairs, given the counts of a store. Thread-safe. Raises `WrongKindError`."""

    def __init__(self, store: Store) -> None:
        settings = store.settings()
        grammar_kind = find_grammar_kind(settings.grammar)
        if grammar_kind.input_kind != PAIRS:
            reason = "because its sentences are monolingual: use a store of sentence pairs"
            raise WrongKindError(f"{store.url}: {grammar_kind.cannot('align words')}, {reason}")
        self._store = store
        self._seed = settings.seed
        self._max_tokens = settings.max_tokens
        self._cached_counts: TextAlignerCounts | None = None

    @property
    def pipeline(self) -> TextPipeline:
        """Text pipeline of the store, read on each use because the store learns settings from its first pairs."""
        return make_pipeline(self._store.settings())

    def prepare(self, pairs: Sequence[TextPair], tokenized: bool = False) -> list[TextPair]:
        """Convert texts to tokens, as in the store. Words of `tokenized` texts are only split into word parts."""
        pipeline = self.pipeline.for_tokenized() if tokenized else self.pipeline
        return [pipeline.pair(source, target) for source, target in pairs]

    def advice(self, pairs: Sequence[TextPair]) -> str | None:
        """Return advice if raw texts seem to be tokenized already, or should have been. None without advice."""
        sides = (self.pipeline.source, "source"), (self.pipeline.target, "target")
        advice = (text_advice(*side, [pair[k] for pair in pairs], *IN_REQUESTS) for k, side in enumerate(sides))
        return next(filter(None, advice), None)

    def align_texts(self, pairs: Sequence[TextPair], symmetrization: str = POSTERIOR) -> tuple[int, list[AlignedPair]]:
        """Align prepared pairs (see `prepare`), given the counts of the store.

        Returns the position of the store at which the counts were read, and the aligned pairs. In a store of word
        parts, the results are words and links of words. Human links of a stored pair also apply to equal texts. Raises
        `AlignerUntrainedError` if the store has no link counts, and `InputError` if a sentence exceeds the store's
        limit.
        """
        for number, texts in enumerate(pairs, 1):
            for side, text in zip(("source", "target"), texts, strict=True):
                if (n := len(split_line(text))) > self._max_tokens:
                    limit = f"the limit of the store is {self._max_tokens:,}"
                    raise InputError(f"pair {number}: the {side} has {n:,} words, {limit}")
        units = [words_and_stems(read_side([source]), read_side([target])) for source, target in pairs]
        names = [unit_names(pair) for pair in units]
        words, stems = (_distinct_names([by_unit[k] for by_unit in names]) for k in (0, 1))
        stored = [(" ".join(split_line(source)), " ".join(split_line(target))) for source, target in pairs]
        counts_read = self._cached_counts = self._store.text_aligner_counts((words, stems), stored, self._cached_counts)
        if not counts_read.counts.jumps:
            problem = "the aligner has not seen any pairs yet: add pairs without links, then run `hierogram learn`"
            raise AlignerUntrainedError(f"{self._store.url}: {problem}")
        sizes = counts_read.vocabulary_sizes
        vocabulary = max(sizes[0], len(words[0])), max(sizes[1], len(words[1]))
        counts = NamedCounts(counts_read.counts)
        answers = []
        for texts, key, pair_units, pair_names in zip(pairs, stored, units, names, strict=True):
            prior = counts.select(pair_names, vocabulary)
            human_links = counts_read.human_links.get(key, KnownLinks())
            answers.append(_align_pair(texts, pair_units, prior, human_links, symmetrization, self._seed))
        return counts_read.position, list(map(_to_words, answers)) if self.pipeline.word_parts else answers


def _distinct_names(names: Sequence[Names]) -> Names:
    """Merge and sort the names of several pairs. Omits names with NUL characters, which Postgres rejects."""
    source_names, target_names = (
        sorted({name for sides in names for name in sides[k] if "\0" not in name}) for k in (0, 1)
    )
    return source_names, target_names


def _align_pair(
    texts: TextPair,
    units: Units,
    prior: PriorsByUnit,
    human_links: KnownLinks,
    symmetrization: str = POSTERIOR,
    seed: int = 1,
) -> AlignedPair:
    """Align a tokenized pair in chains of words and of stems, given the counts of other pairs."""
    source, target = units[0]
    options = replace(corpus_options(AlignOptions(seed=seed, chains=_CHAINS), 1), **_CHAIN_OPTIONS)
    marginals = []
    decoded = []
    tasks = make_direction_tasks(units, prior)
    for task in tasks:
        evidence = (
            make_evidence(task.direction.bitext, {0: human_links}, task.number == 0) if any(human_links) else None
        )
        keys: tuple[list[int], list[int]] = ([], [])
        for chain in range(options.chains):
            keys[options.uses_stems(chain)].append(chain_seed(options.seed, task.number, chain))
        total, by_stems = (
            AlignmentKernel(options, *task.unit(with_stems), evidence).run(keys[with_stems])
            for with_stems in (False, True)
        )
        add_marginals(task.direction.bitext, total, by_stems)
        marginals.append(total)
        decoded.append(decode(task.direction, options.model, total))
    joined = join_directions(symmetrization, [word_links.links for word_links in decoded], marginals, source, target)
    forward, backward = (
        pair_posteriors(task.direction.bitext, 0, total) for task, total in zip(tasks, marginals, strict=True)
    )
    forward = forward.T
    for link in human_links.fixed:
        forward[link] = backward[link] = 1
    links = human_links.impose(zip(joined.source.tolist(), joined.target.tolist(), strict=True))
    source_words, target_words = map(split_line, texts)
    return AlignedPair(source_words, target_words, forward, backward, decoded[0], decoded[1], links)


def _to_words(pair: AlignedPair) -> AlignedPair:
    """Convert a pair of word parts to words. Probabilities are maxima over the parts."""
    source, target = index_words(pair.source), index_words(pair.target)
    sources, targets = (split_line(join_parts(" ".join(parts))) for parts in (pair.source, pair.target))
    if not (pair.source and pair.target):
        return replace(pair, source=sources, target=targets)
    starts = [np.unique(word_indices[:-1], return_index=True)[1] for word_indices in (source, target)]

    def cells(values: NDArray[np.float32]) -> NDArray[np.float32]:
        word_cells: NDArray[np.float32] = np.maximum.reduceat(np.maximum.reduceat(values, starts[0], 0), starts[1], 1)
        return word_cells

    target_links = _most_probable(pair.target_links, target, source)
    source_links = _most_probable(pair.source_links, source, target)
    links = sorted({(source[i], target[j]) for i, j in pair.links})
    forward, backward = cells(pair.forward), cells(pair.backward)
    return AlignedPair(sources, targets, forward, backward, target_links, source_links, links)


def _most_probable(
    part_links: DirectionLinks, word_of_part: Sequence[int], word_of_linked_part: Sequence[int]
) -> DirectionLinks:
    """Return the most probable link of each word, given the links of its parts, see `index_words`."""
    best: list[tuple[bool, float, int]] = [(False, 0.0, -1)] * word_of_part[-1]
    for word, link, p in zip(word_of_part, part_links.links.tolist(), part_links.posterior.tolist(), strict=False):
        best[word] = max(best[word], (link >= 0, p, word_of_linked_part[link] if link >= 0 else -1))
    links = np.array([link for _, _, link in best], part_links.links.dtype)
    return DirectionLinks(links, np.array([p for _, p, _ in best], part_links.posterior.dtype))


def warm_up() -> None:
    """Compile or load the kernels of `TextAligner`, so that the first request is fast."""
    texts = ("a b", "x y")
    units = words_and_stems(read_side([texts[0]]), read_side([texts[1]]))
    prior = NamedCounts(AlignerCounts()).select(unit_names(units), (2, 2))
    for fixed in ((), ((0, 0),)):
        _align_pair(texts, units, prior, KnownLinks(frozenset(fixed)))


def as_plain(pair: AlignedPair, min_probability: float | None = None) -> dict[str, object]:
    """Return a pair as JSON values. With `min_probability`, list all links of at least this probability."""
    posterior = pair.posterior
    links = pair.links
    if min_probability is not None:
        links = [(s, t) for s, t in np.argwhere(posterior >= min_probability).tolist()]
    cells_of_links = tuple(np.array(links, np.intp).reshape(-1, 2).T)
    columns = [_rounded(cells[cells_of_links]) for cells in (posterior, pair.forward, pair.backward)]
    return {
        "source": pair.source,
        "target": pair.target,
        "alignment": " ".join(f"{s}-{t}" for s, t in pair.links),
        "links": [
            {"source": s, "target": t, "probability": p, "forward": forward, "backward": backward}
            for (s, t), p, forward, backward in zip(links, *columns, strict=True)
        ],
        "forward": _plain_word_links(pair.target_links),
        "backward": _plain_word_links(pair.source_links),
    }


def _plain_word_links(word_links: DirectionLinks) -> list[dict[str, object]]:
    return [
        {"position": None if link < 0 else link, "probability": p}
        for link, p in zip(word_links.links.tolist(), _rounded(word_links.posterior), strict=True)
    ]


def _rounded(p: NDArray[np.float32]) -> list[float]:
    return [round(value, _DECIMALS) for value in np.minimum(p, 1).tolist()]
