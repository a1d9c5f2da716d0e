"""From the files of an input to checked lines, some chunks at a time; the store is not asked.

So all of it can be done where it can be killed: `read_apart` is what a process of its own does with files of strangers.
"""

from collections.abc import Generator, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import NamedTuple

from hierogram.daemon.child import SignOfLife
from hierogram.daemon.corpora.inputs import Input, Source
from hierogram.daemon.corpora.limits import DEFAULT_LIMITS, Limits
from hierogram.daemon.corpora.repeats import Repeats
from hierogram.daemon.corpora.texts import Languages, looks_divided, looks_running, pipeline_of
from hierogram.daemon.corpora.validation import Fields, validate
from hierogram.daemon.exceptions import InputError
from hierogram.samplers.grammar.known_links import KnownLinks
from hierogram.storage.records import NewPairs, RejectedLine, Settings, in_runs, join_pairs

CHUNKS_A_TRANSACTION = 4
"""What a transaction costs besides its pairs (words that are counted again, the disk) is shared by so many chunks."""

REPEATS_APART = 500_000
"""Fingerprints that a process with a limit of memory keeps there."""


@dataclass(frozen=True, slots=True)
class Entries:
    """How entries of a dictionary count: each as often as `weight` pairs like it; an entry of several words has its
    words linked by the aligner, or as a `block`, each with each.
    """

    weight: int = 1
    block: bool = False

    def of(self, pairs: NewPairs) -> NewPairs:
        """The pairs of such entries, each entry once and as often as it weighs."""
        places = [k for k in range(len(pairs)) if pairs.occurrences[k] == 0 for _ in range(self.weight)]
        found = pairs.at(places)
        copies = list(range(self.weight)) * (len(found) // self.weight)
        sizes = zip(found.source_lengths, found.target_lengths, strict=True)
        known = {
            k: KnownLinks(frozenset(product(range(height), range(width))))
            for k, (height, width) in enumerate(sizes)
            if self.block or height == width == 1
        }
        return replace(found, occurrences=copies, known=known)


@dataclass(frozen=True, slots=True)
class Handling:
    """How an input is taken in: its languages, those by whose rules it is divided into tokens, its bounds, and what its
    pairs count where they are entries of a dictionary.

    What is None is as the store has it.
    """

    languages: Languages | None = None
    tokenize: Languages | None = None
    limits: Limits = DEFAULT_LIMITS
    entries: Entries | None = None


AS_THE_STORE = Handling()
"""As the store has it, within the usual bounds."""


class Checked(NamedTuple):
    """Lines that make pairs, and those that make none."""

    pairs: NewPairs
    rejected: list[RejectedLine]


class Beginning(NamedTuple):
    """An open input: what it is called, its format, and its bytes, None where that is not known."""

    origin: str
    format: str
    bytes_total: int | None


class Part(NamedTuple):
    """Lines that go into the store in one transaction, the bytes read until there, and what `Checks` notes of them."""

    lines: Checked
    bytes_read: int
    running: bool = False
    divided: bool = False


class Checks:
    """What an input's lines go through before the store; raises `UsageError` where its languages are not the store's.

    `running`: whether most of the first lines look like text that is not divided into tokens, and are not to be;
    `divided`: whether they look like tokens already, and are divided again.
    """

    def __init__(self, settings: Settings, handling: Handling, repeats: Repeats | None = None) -> None:
        self._pipeline = pipeline_of(settings, handling.languages, handling.tokenize)
        self._entries = handling.entries
        self._max_tokens = settings.max_tokens
        self._repeats = Repeats() if repeats is None else repeats
        self._looked = False
        self.languages = self._pipeline.languages
        self.running = self.divided = False

    def read(self, chunks: Iterable[Fields]) -> Checked:
        """What the chunks hold; an input's chunks are read in their order, each once."""
        pairs: list[NewPairs] = []
        rejected: list[RejectedLine] = []
        for fields in chunks:
            if not self._looked:
                self._looked = True
                self._look(fields)
            sound, wrong = validate(self._pipeline.prepared(fields), self._max_tokens, self._repeats)
            pairs.append(sound if self._entries is None else self._entries.of(sound))
            rejected += wrong
        return Checked(join_pairs(pairs), in_runs(rejected))

    def _look(self, fields: Fields) -> None:
        """Notes whether lines without links are running text on a side and stay it, or are tokens and are divided."""
        if self._entries is not None:
            return
        raw = [k for k, alignment in enumerate(fields.alignments) if alignment is None]
        looks = looks_running if self._pipeline.rules is None else looks_divided
        found = any(looks([side[k] for k in raw]) for side in (fields.sources, fields.targets))
        self.running, self.divided = found and looks is looks_running, found and looks is looks_divided

    def parts(self, source: Source) -> Generator[Part, None, None]:
        """All of an open input."""
        for chunks in _several(source.fields):
            yield Part(self.read(chunks), source.bytes_read, self.running, self.divided)

    def close(self) -> None:
        """Give temporary files back."""
        self._repeats.close()


def read_apart(
    alive: SignOfLife, paths: Sequence[str], settings: Settings, handling: Handling
) -> Iterator[Beginning | Part]:
    """The beginning of an input of these files, then its parts; for `Child.run`.

    Raises `InputError` where the files are no input or are damaged, `UsageError` where their languages are not those of
    a store with these settings.
    """
    with Input(paths, limits=handling.limits, read_on=alive) as source:
        checks = Checks(settings, handling, Repeats(REPEATS_APART))
        source.choose(checks.languages)
        yield Beginning(source.origin, source.format, source.bytes_total)
        yield from checks.parts(source)


def _several(chunks: Iterable[Fields]) -> Iterator[list[Fields]]:
    """The chunks, as many together as go into one transaction; fewer in the end, and before the input fails."""
    gathered: list[Fields] = []
    try:
        for fields in chunks:
            gathered.append(fields)
            if len(gathered) == CHUNKS_A_TRANSACTION:
                yield gathered
                gathered = []
    except InputError:
        if gathered:
            yield gathered
        raise
    if gathered:
        yield gathered
