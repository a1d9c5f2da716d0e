"""Input reader: turns files into validated lines. Needs no store, so that a sandbox can run it."""

from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from itertools import chain, islice, product
from typing import Any, NamedTuple, Protocol

from hierogram.daemon.exceptions import InputError, UsageError
from hierogram.daemon.files import printable, strip_suffix
from hierogram.daemon.shared_options import DictionaryOptions
from hierogram.daemon.text import formats
from hierogram.daemon.text.formats import JSONL, PARALLEL, PIPES, TMX, TSV
from hierogram.daemon.text.inspection import (
    WORD_PARTS,
    Note,
    Notes,
    UnicodeSpaceDetector,
    count_signs,
    describe_tokenization,
)
from hierogram.daemon.text.languages import learn_orthography
from hierogram.daemon.text.lines import (
    DEFAULT_LIMITS,
    STANDARD_INPUT,
    InputLimits,
    LineFile,
    open_lines,
    read_sentences,
)
from hierogram.daemon.text.pipeline import Languages, check_names, make_pipeline
from hierogram.daemon.text.segments import choose_word_parts
from hierogram.daemon.text.validation import DuplicateCounter, LineColumns, validate
from hierogram.samplers.grammar.kinds import find_grammar_kind
from hierogram.samplers.grammar.known_links import KnownLinks
from hierogram.samplers.grammar.settings import ITG_ALIGNER
from hierogram.storage.records.pairs import NewPairs, RejectedLine, join_pairs, join_runs
from hierogram.storage.records.settings import LearnedSettings, Settings
from hierogram.storage.worker_process import KeepAlive

AUTO = "auto"
_ONE_FILE = f"one file in the format {PIPES}, {TSV}, {JSONL} or {TMX}"
_NUMBERS_OF_FILES = {AUTO: (1, 2, 3), PARALLEL: (2, 3), PIPES: (1,), TSV: (1,), JSONL: (1,), TMX: (1,)}


class PairInput(Protocol):
    """Input with a name, a format, parsed lines, and progress."""

    @property
    def origin(self) -> str:
        """Name of the input in the store and in messages."""

    @property
    def format(self) -> str:
        """Format, as stored with the input, such as `jsonl`."""

    def line_chunks(self, languages: Languages | None) -> Iterator[LineColumns]:
        """Yield the parsed lines in chunks. Raises `UsageError` if the file names suggest swapped sides."""

    @property
    def bytes_read(self) -> int:
        """Bytes read so far."""

    @property
    def bytes_total(self) -> int | None:
        """Size in bytes, None if it is unknown."""


class OpenFiles(ExitStack):
    """Open files of an input, with names and sizes. Closing the object closes the files."""

    _files: list[LineFile]

    @property
    def origin(self) -> str:
        """Absolute paths of the files (`<stdin>` for standard input), joined by ` + `."""
        return " + ".join(file.name for file in self._files)

    @property
    def bytes_read(self) -> int:
        """Bytes read from all files so far."""
        return sum(file.bytes_read for file in self._files)

    @property
    def bytes_total(self) -> int | None:
        """Total size of all files in bytes. None if the size of a file is unknown."""
        sizes = [file.size for file in self._files]
        return None if None in sizes else sum(size or 0 for size in sizes)


class Input(OpenFiles):
    """One to three open files in a known format. As a context manager, it closes the files."""

    def __init__(
        self,
        paths: Sequence[str],
        format: str = AUTO,
        limits: InputLimits = DEFAULT_LIMITS,
        after_read: Callable[[], None] = lambda: None,
        within: str | None = None,
    ) -> None:
        """Open the files, see `open_lines`. Raises `InputError`, or `UsageError` for a wrong number of files."""
        super().__init__()
        if format == AUTO and len(paths) == 1 and strip_suffix(paths[0].lower()).endswith(".tmx"):
            format = TMX
        _check_paths(paths, format)
        self._paths = list(map(printable, paths))
        with ExitStack() as stack:
            self._files = [stack.enter_context(open_lines(path, limits, after_read, within)) for path in paths]
            self._chunks = [file.chunks() for file in self._files]
            self.format = TMX if format == TMX else self._detect_format(format)
            self.push(stack.pop_all())

    def _detect_format(self, format: str) -> str:
        beginnings = [list(islice(chunks, 1)) for chunks in self._chunks]
        self._chunks = [chain(beginning, chunks) for beginning, chunks in zip(beginnings, self._chunks, strict=True)]
        first = [beginning[0] if beginning else [] for beginning in beginnings]
        if len(first) > 1:
            formats.check_parallel(first, self._paths)
            return PARALLEL
        if format == AUTO:
            return formats.detect_format(first[0], self._paths[0])
        formats.check_lines(first[0], self._paths[0], format)
        return format

    def line_chunks(self, languages: Languages | None = None) -> Iterator[LineColumns]:
        """Yield the parsed lines, see `PairInput.line_chunks`. Can be called once."""
        if self.format == TMX:
            # Import here because XML parsers load slowly and are rarely needed.
            from hierogram.daemon.text.translation_memories import read_tmx

            return read_tmx(self._files[0].blocks(), self._files[0].name, languages)
        if self.format == PARALLEL:
            check_names(self._paths, languages)
            return formats.parse_parallel(*self._chunks)
        return formats.parse_lines(self._chunks[0], formats.LINE_PARSERS[self.format])


def read_pairs(paths: Sequence[str]) -> tuple[list[str], list[str]]:
    """Read sentence pairs from two parallel files or one file, without their links.

    Raises `InputError`, also for a malformed line, and `UsageError` for a wrong number of files.
    """
    if len(paths) == 2:
        sources, targets = read_sentences(paths[0]), read_sentences(paths[1])
        if len(sources) != len(targets):
            pairs = zip(paths, (len(sources), len(targets)), strict=True)
            sizes = ", ".join(f"{path} has {size:,} line{'s' * (size != 1)}" for path, size in pairs)
            raise InputError(f"{sizes}: sentences and translations must be aligned line by line")
        return sources, targets
    if len(paths) != 1:
        raise UsageError(f"expected two files, SOURCE TARGET, or {_ONE_FILE}, got {len(paths)} files")
    sources, targets = [], []
    with Input(paths) as source:
        for columns in source.line_chunks():
            for rejection in columns.rejected[:1]:
                raise InputError(f"{source.origin}, line {rejection.line}: {rejection.message}")
            try:
                sources += [side.decode() for side in columns.sources]
                targets += [side.decode() for side in columns.targets]
            except UnicodeDecodeError as error:
                raise InputError(f"{source.origin}: not UTF-8 ({error.reason}): convert the file first") from error
    return sources, targets


def _check_paths(paths: Sequence[str], format: str) -> None:
    expected = _NUMBERS_OF_FILES.get(format)
    if expected is None:
        named = f"{', '.join(_NUMBERS_OF_FILES)}, memory or burrito; or tbx, csv or tsv with --dictionary"
        raise UsageError(f"--format {format}: expected {named}")
    if len(paths) not in expected:
        if format == AUTO:
            files = f"two or three files, SOURCE TARGET [ALIGNMENT], or {_ONE_FILE}"
            raise UsageError(f"expected {files}, got {len(paths)} files")
        files = f"{' or '.join(map(str, expected))} file{'s' * (expected[-1] > 1)}"
        raise UsageError(f"--format {format} requires {files}, got {len(paths)}")
    if list(paths).count(STANDARD_INPUT) > 1:
        raise UsageError("standard input (-) can be used only once")


CHUNKS_PER_TRANSACTION = 4
"""Number of chunks that share the fixed costs of a transaction (recounting words, disk writes)."""

_SAMPLED_PAIRS = 1_000
"""Maximum number of pairs per transaction that are inspected for signs of running text or of tokens."""
_MIN_PAIRS = 500
"""Minimum number of pairs for learning word parts."""

REPEATS_IN_MEMORY = 500_000
"""Number of pair fingerprints that the `DuplicateCounter` of a sandboxed process keeps in memory."""


@dataclass(frozen=True, slots=True)
class IngestOptions:
    """Options of an input.

    `languages` None selects the languages of the store. `entries` is None for input other than dictionaries. `within`
    is the folder of untrusted files, None for other files.
    """

    languages: Languages | None = None
    limits: InputLimits = DEFAULT_LIMITS
    entries: DictionaryOptions | None = None
    within: str | None = None


STORE_DEFAULTS = IngestOptions()


class InputHeader(NamedTuple):
    """Name, format, and size in bytes of an input. The size is None if unknown."""

    origin: str
    format: str
    bytes_total: int | None


class ValidatedChunk(NamedTuple):
    """Valid pairs and rejected lines for one transaction.

    `bytes_read` and `notes` cover the input up to this chunk. `learned` are settings that the input determines,
    None without valid pairs.
    """

    pairs: NewPairs
    rejected: list[RejectedLine]
    bytes_read: int = 0
    notes: tuple[Note, ...] = ()
    learned: LearnedSettings | None = None


class InputValidator:
    """Validator of one input. Raises `UsageError` if the languages differ from the store's."""

    def __init__(
        self, settings: Settings, options: IngestOptions, repeats: DuplicateCounter | None = None, format: str = ""
    ) -> None:
        self._entries = options.entries
        is_text = options.entries is None
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

    def read(self, line_chunks: Iterable[LineColumns], is_whole_input: bool = False) -> ValidatedChunk:
        """Validate the next chunks of the input. `is_whole_input` is True if they are the whole input."""
        chunks = list(line_chunks)
        pairs: list[NewPairs] = []
        rejected: list[RejectedLine] = []
        self._unicode_spaces.inspect(chunks)
        if self._inspects_text:
            self._inspect_text(chunks)
        if self._learns_orthography and self._pipeline.rules is not None:
            self._learn(chunks, is_whole_input)
        for columns in chunks:
            self._notes.inspect(columns)
            columns = self._unicode_spaces.divide(columns)
            valid, invalid = validate(self._pipeline.prepare(columns), self._settings.max_tokens, self._repeats)
            pairs.append(valid if self._entries is None else weigh_entries(valid, self._entries))
            rejected += invalid
        notes = [*self._text_notes, *self._notes.collect(), *filter(None, (self._unicode_spaces.note(),))]
        joined = join_pairs(pairs)
        # Do not set store settings if every line of the chunks was rejected.
        learned = self._learned if len(joined) else None
        return ValidatedChunk(joined, join_runs(rejected), notes=tuple(notes), learned=learned)

    def _inspect_text(self, chunks: Sequence[LineColumns]) -> None:
        """Set `tokenize` if it is None. Otherwise, note if the text does not fit the setting."""
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

    def _learn(self, chunks: Sequence[LineColumns], is_whole_input: bool) -> None:
        """Learn orthographies from the first chunks, and word parts if they are a whole input without links."""
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

    def chunks(self, source: PairInput) -> Generator[ValidatedChunk, None, None]:
        """Yield the validated chunks of an open input. Raises `UsageError`, see `PairInput.line_chunks`."""
        groups = _group_chunks(source.line_chunks(self._pipeline.languages))
        numbered = enumerate(groups)
        validated = (self.read(group, k == 0 and len(group) < CHUNKS_PER_TRANSACTION) for k, group in numbered)
        return (chunk._replace(bytes_read=source.bytes_read) for chunk in validated)

    def close(self) -> None:
        """Delete temporary files."""
        self._repeats.close()


def _unlinked_lines(chunks: Iterable[LineColumns], limit: int | None = None) -> tuple[list[str], list[str]]:
    """Return both sides of the first `limit` pairs without links. Lines with links are already tokenized."""
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
    """Yield the header of an open input, then its chunks. Raises the errors of `InputValidator`."""
    with closing(InputValidator(settings, options, repeats, source.format)) as validator:
        chunks = validator.chunks(source)
        yield InputHeader(source.origin, source.format, source.bytes_total)
        yield from chunks


def read_in_sandbox(
    alive: KeepAlive, paths: Sequence[str], settings: Settings, options: IngestOptions
) -> Iterator[InputHeader | ValidatedChunk]:
    """Yield the header of an input, then its chunks. Runs in a `WorkerProcess`."""
    with Input(paths, limits=options.limits, after_read=alive, within=options.within) as source:
        yield from read_validated(source, settings, options, DuplicateCounter(REPEATS_IN_MEMORY))


def weigh_entries(pairs: NewPairs, options: DictionaryOptions) -> NewPairs:
    """Repeat each distinct dictionary entry `weight` times.

    Entries of one word per side are linked. With `block`, each source word of a longer entry is also linked to
    each of its target words.
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
    """Group chunks by transaction. The last group, and the group before an input error, may be smaller."""
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
