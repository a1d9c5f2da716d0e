"""Synchronization of a corpus with a TMX file."""

from collections.abc import Callable, Iterator, Sequence
from itertools import compress, count
from typing import NamedTuple

from hierogram.daemon.exceptions import InputError
from hierogram.daemon.text.formats import OBJECTS
from hierogram.daemon.text.ingest import IngestReport, check_input_kind, ingest
from hierogram.daemon.text.lines import open_lines
from hierogram.daemon.text.pipeline import Languages, make_pipeline
from hierogram.daemon.text.translation_memories import read_tmx
from hierogram.daemon.text.validation import LineColumns
from hierogram.samplers.grammar.kinds import PAIRS
from hierogram.storage.browsing.details import iterate_pairs
from hierogram.storage.browsing.reader import Reader
from hierogram.storage.store import Store


class Synchronized(NamedTuple):
    """Report of the ingest, with new and rejected pairs, and numbers of unchanged and withdrawn pairs."""

    added: IngestReport
    kept: int
    withdrawn: int


def synchronize(
    store: Store,
    path: str,
    corpus: str,
    withdraw: Callable[[Sequence[int]], object],
    *,
    languages: tuple[str, str] | None = None,
) -> Synchronized:
    """Make a corpus equal to a TMX file: withdraw pairs that are missing or changed, then add new pairs.

    A pair is identified by the `tuid` of its unit, or by its texts if the unit has no `tuid`. If pairs with different
    texts share a `tuid`, only the texts of the first are stored, and the others are rejected. `withdraw` removes pairs,
    waits for the removal, and may raise an error. `languages` are source and target; the default are the languages of
    the store, or of the first unit. Raises `InputError`, without changing the store, if the file is damaged or no unit
    has text in both languages, and `UsageError` for other languages than the store's.
    """
    settings = check_input_kind(store, PAIRS)
    pipeline = make_pipeline(settings, languages)
    file_texts: dict[str | tuple[str, str], tuple[str, str]] = {}
    positions: dict[str | tuple[str, str], int] = {}
    invalid_positions: list[int] = []
    position = count()
    with open_lines(path) as file:
        chunks = list(read_tmx(file.blocks(), file.name, pipeline.languages, ids=True))
    for fields in chunks:
        for source, target, unit_id in zip(fields.sources, fields.targets, fields.external_ids, strict=True):
            number = next(position)
            pair = pipeline.pair(source.decode(), target.decode())
            earlier = file_texts.get(unit_id or pair)
            if not (source.strip() and target.strip()) or earlier not in (None, pair):
                # Ingest also receives these pairs, and rejects them with a reason.
                invalid_positions.append(number)
            elif earlier is None:
                file_texts[unit_id or pair], positions[unit_id or pair] = pair, number
    if not file_texts:
        both = f"both {' and '.join(pipeline.languages)}" if pipeline.languages else "both languages of the first unit"
        raise InputError(f"{path}: no unit has text in {both}; nothing was changed: check the languages")
    obsolete: list[int] = []
    unchanged = 0
    with Reader(store.engine.url) as reader, reader.read() as transaction:
        for stored in iterate_pairs(transaction, corpus):
            content = (stored.source, stored.target)
            if file_texts.get(stored.external_id or content) == content:
                positions.pop(stored.external_id or content, None)
                unchanged += 1
            else:
                obsolete.append(stored.id)
    if obsolete:
        withdraw(obsolete)
    added = ingest(store, _Units(chunks, frozenset((*positions.values(), *invalid_positions)), path), corpus)
    return Synchronized(added, unchanged, len(obsolete))


class _Units:
    """Input for `ingest`: the pairs of a TMX file at `positions` (from 0), and all rejected units."""

    format = OBJECTS
    bytes_total = None
    bytes_read = 0

    def __init__(self, chunks: Sequence[LineColumns], positions: frozenset[int], origin: str) -> None:
        self.origin = origin
        self._chunks = chunks
        self._positions = positions

    def line_chunks(self, _languages: Languages | None) -> Iterator[LineColumns]:
        """Yield the units. The languages were already selected when the file was read."""
        position = count()
        for units in self._chunks:
            chosen = [next(position) in self._positions for _ in units.line_numbers]
            yield LineColumns(
                list(compress(units.line_numbers, chosen)),
                list(compress(units.sources, chosen)),
                list(compress(units.targets, chosen)),
                list(compress(units.alignments, chosen)),
                list(compress(units.external_ids, chosen)),
                rejected=units.rejected,
            )
