"""Reader of sentence pairs: turns the parsed lines of an input into validated pairs.

`InputValidator` converts lines to tokens, rejects invalid lines, and learns the settings that the first input of a
store determines. It needs no store, so that a sandbox can run it.
"""

from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from itertools import chain, product
from typing import Any, NamedTuple

from hierogram.daemon.exceptions import InputError
from hierogram.daemon.shared_options import DictionaryOptions
from hierogram.daemon.text.formats import TSV
from hierogram.daemon.text.inspection import WORD_PARTS, Note, Notes, count_signs, describe_tokenization
from hierogram.daemon.text.languages import learn_orthography
from hierogram.daemon.text.lines import (
    DEFAULT_LIMITS,
    InputLimits,
)
from hierogram.daemon.text.pair_files import PairFiles, PairInput
from hierogram.daemon.text.pipeline import Languages, make_pipeline
from hierogram.daemon.text.segments import choose_word_parts
from hierogram.daemon.text.unicode_spaces import UnicodeSpaceDetector
from hierogram.daemon.text.validation import DuplicateCounter, LineColumns, validate
from hierogram.samplers.grammar.kinds import find_grammar_kind
from hierogram.samplers.grammar.known_links import KnownLinks
from hierogram.samplers.grammar.settings import ITG_ALIGNER
from hierogram.storage.records.pairs import NewPairs, RejectedLine, join_pairs, join_runs
from hierogram.storage.records.settings import LearnedSettings, Settings
from hierogram.storage.worker_process import KeepAlive

CHUNKS_PER_TRANSACTION = 4
"""Number of chunks that share the fixed costs of a transaction (recounting words, disk writes)."""

_SAMPLED_PAIRS = 1_000
"""Maximum number of pairs per transaction that are inspected for signs of running text or of tokens."""
_MIN_PAIRS = 500
"""Minimum number of pairs for learning word parts."""

REPEATS_IN_MEMORY = 500_000
"""Number of distinct pairs that the `DuplicateCounter` of a sandboxed process keeps in memory."""


@dataclass(frozen=True, slots=True)
class IngestOptions:
    """Options of an input.

    `languages` None selects the languages of the store. `dictionary` is None for input other than dictionaries.
    `untrusted_folder` is the folder of files that other users write, see `open_lines`, and None for other files.
    """

    languages: Languages | None = None
    limits: InputLimits = DEFAULT_LIMITS
    dictionary: DictionaryOptions | None = None
    untrusted_folder: str | None = None


STORE_DEFAULTS = IngestOptions()
"""Options for text in the languages of the store."""


class InputHeader(NamedTuple):
    """Name, format, and compressed size in bytes of an input. The size is None if unknown."""

    origin: str
    format: str
    bytes_total: int | None


class ValidatedChunk(NamedTuple):
    """Valid pairs and rejected lines for one transaction.

    `bytes_read` and `notes` cover the input up to this chunk. `learned` are the settings of the store that the input
    has determined so far, by name, to be stored with the pairs. It is None if no line of the chunk is valid.
    """

    pairs: NewPairs
    rejected: list[RejectedLine]
    bytes_read: int = 0
    notes: tuple[Note, ...] = ()
    learned: LearnedSettings | None = None


class InputValidator:
    """Validator of one input, which learns settings of the store. Pass the chunks in order, then close it.

    Raises `UsageError` if the languages differ from the store's.
    """

    def __init__(
        self, settings: Settings, options: IngestOptions, repeats: DuplicateCounter | None = None, format: str = ""
    ) -> None:
        self._dictionary = options.dictionary
        is_text = options.dictionary is None
        self._sets_tokenize = is_text and settings.tokenize is None
        if not is_text and settings.tokenize is None:
            # Entries of dictionaries are running text.
            settings = replace(settings, tokenize=True)
        self._settings, self._languages = settings, options.languages
        self._pipeline = make_pipeline(settings, options.languages)
        self._repeats = DuplicateCounter() if repeats is None else repeats
        self._notes = Notes(quoting=format == TSV)
        self._unicode_spaces = UnicodeSpaceDetector()
        self._inspects_text = is_text
        self._learns_orthography = is_text and not settings.orthographies
        supports_word_parts = find_grammar_kind(settings.grammar).needs_links and settings.aligner != ITG_ALIGNER
        self._chooses_word_parts = supports_word_parts and not settings.word_parts
        # Pass `tokenize=None` until signs are found, so that `write_learned` raises if another input sets it to True.
        self._learned: dict[str, Any] = {"tokenize": None} if self._sets_tokenize else {}
        self._text_notes: list[Note] = []

    def validate(self, line_chunks: Iterable[LineColumns], is_whole_input: bool = False) -> ValidatedChunk:
        """Validate the next chunks together. `is_whole_input` is True if they are the whole input."""
        chunks = list(line_chunks)
        pairs: list[NewPairs] = []
        rejected: list[RejectedLine] = []
        self._unicode_spaces.inspect(chunks)
        if self._inspects_text:
            self._inspect_text(chunks)
        if self._learns_orthography and self._pipeline.rules is not None:
            self._learn_text_settings(chunks, is_whole_input)
        for columns in chunks:
            self._notes.inspect(columns)
            columns = self._unicode_spaces.divide(columns)
            valid, invalid = validate(self._pipeline.prepare(columns), self._settings.max_tokens, self._repeats)
            pairs.append(valid if self._dictionary is None else weigh_entries(valid, self._dictionary))
            rejected += invalid
        notes = [*self._text_notes, *self._notes.collect(), *filter(None, (self._unicode_spaces.note(),))]
        joined = join_pairs(pairs)
        # Do not set store settings if every line of the chunks was rejected.
        learned = self._learned if len(joined) else None
        return ValidatedChunk(joined, join_runs(rejected), notes=tuple(notes), learned=learned)

    def _inspect_text(self, chunks: Sequence[LineColumns]) -> None:
        """Learn the setting `tokenize` if it is not set. Otherwise, note if the text does not fit the setting."""
        signs = count_signs(chain(*_unlinked_lines(chunks, _SAMPLED_PAIRS)))
        if signs.is_running is None:
            return
        self._inspects_text = False
        if self._sets_tokenize:
            self._learned["tokenize"] = signs.is_running
            if signs.is_running and self._languages is not None:
                self._learned["languages"] = self._languages
            self._pipeline = make_pipeline(replace(self._settings, **self._learned), self._languages)
        self._text_notes += describe_tokenization(signs, self._pipeline.rules, self._sets_tokenize)

    def _learn_text_settings(self, chunks: Sequence[LineColumns], is_whole_input: bool) -> None:
        """Learn orthographies from the first chunks, and word parts from a whole input."""
        assert self._pipeline.rules is not None
        self._learns_orthography = False
        lines = _unlinked_lines(chunks)
        orthographies = tuple(map(learn_orthography, self._pipeline.rules, lines))
        self._learned["orthographies"] = orthographies
        self._pipeline = replace(self._pipeline, orthographies=orthographies)
        are_unlinked = len(lines[0]) == sum(len(columns.sources) for columns in chunks)
        if is_whole_input and self._chooses_word_parts and are_unlinked and len(lines[0]) >= _MIN_PAIRS:
            sides = self._pipeline.source, self._pipeline.target
            words = ([*map(pipeline.tokens, texts)] for pipeline, texts in zip(sides, lines, strict=True))
            word_parts, reason = choose_word_parts(*words)
            self._learned["word_parts"] = word_parts
            self._pipeline = replace(self._pipeline, word_parts=word_parts)
            self._text_notes.append(Note(WORD_PARTS, reason))

    def validated_chunks(self, source: PairInput) -> Generator[ValidatedChunk, None, None]:
        """Yield the validated chunks of an open input. Raises as `PairInput.line_chunks` does."""
        groups = _group_chunks(source.line_chunks(self._pipeline.languages))
        numbered = enumerate(groups)
        validated = (self.validate(group, k == 0 and len(group) < CHUNKS_PER_TRANSACTION) for k, group in numbered)
        return (chunk._replace(bytes_read=source.bytes_read) for chunk in validated)

    def close(self) -> None:
        """Delete the temporary file of the counter of repeats, if any."""
        self._repeats.close()


def _unlinked_lines(chunks: Iterable[LineColumns], limit: int | None = None) -> tuple[list[str], list[str]]:
    """Return both sides of the first `limit` lines without links. Others are already tokenized."""
    lines: tuple[list[str], list[str]] = [], []
    for columns in chunks:
        linked = columns.linked()
        unlinked = [k for k in range(len(columns.sources)) if k not in linked][slice(limit and limit - len(lines[0]))]
        for side, texts in zip(lines, (columns.sources, columns.targets), strict=True):
            side += [texts[k].decode(errors="replace") for k in unlinked]
    return lines


def read_validated(
    source: PairInput, settings: Settings, options: IngestOptions, repeats: DuplicateCounter | None = None
) -> Generator[InputHeader | ValidatedChunk, None, None]:
    """Yield the header of an open input, then its chunks. Raises as `InputValidator` and `line_chunks` do."""
    with closing(InputValidator(settings, options, repeats, source.format)) as validator:
        chunks = validator.validated_chunks(source)
        yield InputHeader(source.origin, source.format, source.bytes_total)
        yield from chunks


def read_in_sandbox(
    alive: KeepAlive, paths: Sequence[str], settings: Settings, options: IngestOptions
) -> Iterator[InputHeader | ValidatedChunk]:
    """Yield the header of an untrusted input, then its chunks. Runs in a `WorkerProcess`."""
    with PairFiles(paths, limits=options.limits, after_read=alive, untrusted_folder=options.untrusted_folder) as source:
        yield from read_validated(source, settings, options, DuplicateCounter(REPEATS_IN_MEMORY))


def weigh_entries(pairs: NewPairs, options: DictionaryOptions) -> NewPairs:
    """Repeat each distinct dictionary entry `weight` times, and fix its links if they are certain.

    An entry of one word per side is linked. With `block`, each source word of a longer entry is also linked to each of
    its target words.
    """
    indices = [k for k in range(len(pairs)) if pairs.occurrences[k] == 0 for _ in range(options.weight)]
    repeated = pairs.at(indices)
    sizes = zip(repeated.source_lengths, repeated.target_lengths, strict=True)
    known_links = {
        k: KnownLinks(frozenset(product(range(height), range(width))))
        for k, (height, width) in enumerate(sizes)
        if options.block or height == width == 1
    }
    copies = [k % options.weight for k in range(len(repeated))]
    return replace(repeated, occurrences=copies, human_links=known_links)


def _group_chunks(chunks: Iterable[LineColumns]) -> Iterator[list[LineColumns]]:
    """Group chunks by transaction. The last group, also before an input error, may be smaller."""
    gathered: list[LineColumns] = []
    try:
        for columns in chunks:
            gathered.append(columns)
            if len(gathered) == CHUNKS_PER_TRANSACTION:
                yield gathered
                gathered = []
    except InputError:
        if gathered:
            yield gathered
        raise
    if gathered:
        yield gathered
