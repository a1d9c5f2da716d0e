"""Treebank ingest: read, transform and store trees and forests. Malformed trees are rejected.

The first input fixes the transformations and the known words for the lifetime of the store. All other words become
classes, in the first and all later inputs, so that a tree is stored in the same form if it is ingested again.
"""

from collections.abc import Callable, Generator, Iterable
from dataclasses import asdict

from hierogram.daemon.exceptions import UsageError
from hierogram.daemon.text.ingest import DEFAULT_CORPUS, IngestReport, check_input_kind, store_input
from hierogram.daemon.text.lines import LINES_PER_CHUNK
from hierogram.daemon.text.reading import InputHeader, ValidatedChunk
from hierogram.daemon.text.treebanks import reading
from hierogram.daemon.text.treebanks.reading import OpenTreebank, TreebankFile
from hierogram.daemon.text.treebanks.transformations import Transformations
from hierogram.daemon.text.validation import DuplicateCounter
from hierogram.samplers.grammar.kinds import PARSES
from hierogram.storage.store import Store
from hierogram.storage.worker_process import WorkerProcess


def read_treebank_settings(store: Store) -> tuple[Transformations, frozenset[str]] | None:
    """Return the transformations and known words that a store's first trees fixed, or None without trees."""
    stored = store.treebank()
    if stored is None:
        return None
    transformations, known_words = stored["transformations"], stored["known"]
    assert isinstance(transformations, dict)
    assert isinstance(known_words, list)
    return Transformations(**transformations), frozenset(known_words)


def ingest_open(
    store: Store,
    opened: OpenTreebank,
    transformations: Transformations | None = None,
    corpus: str = DEFAULT_CORPUS,
    report: Callable[[IngestReport], None] | None = None,
) -> IngestReport:
    """Store the trees and packed forests of an open file. Stored trees are skipped.

    The file is parsed into memory before the first tree is stored, because known words are counted in all of it. If
    `transformations` is None, the store's transformations or the defaults are used. `report` gets the progress after
    each chunk. Raises `WrongKindError` if the store does not take trees, `UsageError` if its transformations differ,
    and `InputError` as `ingest` does.
    """
    transformations, _ = _check_transformations(store, transformations)
    treebank, file = opened.treebank, opened.file

    def messages() -> Generator[InputHeader | ValidatedChunk, None, None]:
        yield InputHeader(file.name, treebank.format, file.size)
        read = list(reading.sentences(opened, transformations, store.settings().max_tokens))
        known = _fix_known_words(store, transformations, reading.learn_known_words(opened, read, transformations))
        for number, chunk in enumerate(reading.chunks(iter(read), known, DuplicateCounter()), 1):
            share = min(number * LINES_PER_CHUNK / max(len(read), 1), 1)
            yield chunk._replace(bytes_read=int(share * file.bytes_read))

    return store_input(store, corpus, treebank.limits, messages(), report)


def read_trees_in_sandbox(
    store: Store, child: WorkerProcess, treebank: TreebankFile, check: Callable[[], None]
) -> Generator[InputHeader | ValidatedChunk, None, None]:
    """Yield the header and the chunks of an untrusted file of trees, for `store_input`.

    `child` reads the file, twice if the store has no known words yet. For `check`, see `WorkerProcess.run`.
    """
    transformations, known = _check_transformations(store, None)
    longest = store.settings().max_tokens
    if known is None:
        [words] = child.run(check, reading.read_known_words_in_sandbox, treebank, transformations, longest)
        known = _fix_known_words(store, transformations, words)
    return child.run(check, reading.read_in_sandbox, treebank, transformations, longest, known)


def _check_transformations(
    store: Store, transformations: Transformations | None
) -> tuple[Transformations, frozenset[str] | None]:
    """Return a store's transformations and known words (None before its first trees). Raises `UsageError`."""
    check_input_kind(store, PARSES)
    stored = read_treebank_settings(store)
    if stored is None:
        return transformations or Transformations(), None
    if transformations is not None and transformations != stored[0]:
        fixed, requested = asdict(stored[0]), asdict(transformations)
        differing = [name for name in fixed if fixed[name] != requested[name]]
        expected, got = (" ".join(f"{name}={plain[name]}" for name in differing) for plain in (fixed, requested))
        problem = f"expected the transformations {expected} of the store's first trees, got {got}"
        raise UsageError(f"{store.url}: {problem}: omit these options, or use another store")
    return stored


def _fix_known_words(store: Store, transformations: Transformations, words: Iterable[str]) -> frozenset[str]:
    """Store known words unless stored. Returns the stored ones."""
    store.fix_treebank({"transformations": asdict(transformations), "known": sorted(words)})
    _, known = _check_transformations(store, transformations)
    assert known is not None
    return known
