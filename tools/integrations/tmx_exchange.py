"""TMX exchange with translation-memory programs: export by date, and import that synchronizes a corpus."""

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from itertools import compress, count
from typing import NamedTuple

from hierogram.daemon.exceptions import InputError
from hierogram.daemon.text.formats import OBJECTS
from hierogram.daemon.text.ingest import IngestReport, check_takes, ingest
from hierogram.daemon.text.lines import open_lines
from hierogram.daemon.text.rejections import DEFAULT_LIMITS, Limits
from hierogram.daemon.text.texts import Languages, pipeline_of
from hierogram.daemon.text.translation_memories import memory_fields
from hierogram.daemon.text.validation import LineColumns
from hierogram.daemon.xml_text import xml_attribute, xml_text
from hierogram.samplers.grammar.kinds import PAIRS
from hierogram.storage.browsing.looking import NamedPair, last_pair, named_pairs, page_of_pairs
from hierogram.storage.browsing.reader import Reader
from hierogram.storage.store import Store

UNSAID = ("x-source", "x-target")
"""Language codes for a store that does not name its languages."""
_MOMENT = "%Y%m%dT%H%M%SZ"
_PAIRS_A_PIECE = 500


def memory_file(reader: Reader, corpus: str | None = None, since: datetime | None = None) -> Iterator[str]:
    """Yield a TMX file in pieces: pairs of a corpus, or of all, added at or after `since`, or at any time.

    The `tuid` is the external id. Each piece is read in its own transaction, so that a slow reader holds no connection.
    Pairs withdrawn during the export are missing, and pairs added during the export are left out. Characters that XML
    does not allow are dropped.
    """
    with reader.look() as look:
        settings, last = look.settings(), last_pair(look)
    texts = pipeline_of(settings).running()
    languages = [xml_attribute(language) for language in settings.languages or UNSAID]
    yield (
        '<?xml version="1.0" encoding="UTF-8"?>\n<tmx version="1.4">\n'
        '<header creationtool="hierogram" creationtoolversion="1" segtype="sentence" o-tmf="hierogram" '
        f'adminlang="en" srclang={languages[0]} datatype="plaintext"/>\n<body>\n'
    )

    def unit(pair: NamedPair) -> str:
        own = "" if pair.external_id is None else f" tuid={xml_attribute(pair.external_id)}"
        sides = (texts.source.joined(pair.source.split(" ")), texts.target.joined(pair.target.split(" ")))
        variants = "".join(
            f"<tuv xml:lang={language}><seg>{xml_text(side)}</seg></tuv>"
            for language, side in zip(languages, sides, strict=True)
        )
        moment = pair.added_at.astimezone(UTC).strftime(_MOMENT)
        return f'<tu{own} creationdate="{moment}"><prop type="x-corpus">{xml_text(pair.corpus)}</prop>{variants}</tu>\n'

    after = 0
    while after < last:
        with reader.look() as look:
            page = page_of_pairs(look, after, corpus, _PAIRS_A_PIECE)
        if not page:
            break
        after = page[-1].id
        yield "".join(unit(pair) for pair in page if pair.id <= last and (since is None or pair.added_at >= since))
    yield "</body>\n</tmx>\n"


class Synchronized(NamedTuple):
    """Result of a synchronization: the report of added pairs, and the counts of kept and withdrawn pairs."""

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
    limits: Limits = DEFAULT_LIMITS,
) -> Synchronized:
    """Make a corpus equal to a TMX file: add new pairs, and withdraw pairs that are missing or changed.

    Pairs are identified by the `tuid` of their unit, or by their texts. If several units share a `tuid`, the first is
    used, and units with other texts are rejected, as are units with an empty side. `withdraw` removes pairs from the
    store and waits until it is done. Raises `InputError`, without changing the store, if the file is damaged or has no
    unit in both languages.
    """
    check_takes(store, PAIRS)
    settings = store.settings()
    texts = pipeline_of(settings, languages)
    wanted: dict[str | tuple[str, str], tuple[str, str]] = {}
    written: dict[str | tuple[str, str], int] = {}
    refused: list[int] = []
    place = count()
    with open_lines(path, limits) as file:
        chunks = list(memory_fields(file.blocks(), file.name, texts.languages, ids=True))
    for fields in chunks:
        for source, target, name in zip(fields.sources, fields.targets, fields.ids, strict=True):
            number = next(place)
            pair = texts.pair(source.decode(), target.decode())
            known = wanted.get(name or pair)
            if not (source.strip() and target.strip()) or known not in (None, pair):
                refused.append(number)
            elif known is None:
                wanted[name or pair], written[name or pair] = pair, number
    if not wanted:
        raise InputError(f"{path}: no units in both languages; nothing was changed")
    gone: list[int] = []
    kept = 0
    with Reader(store.engine.url) as reader, reader.look() as look:
        for stored in named_pairs(look, corpus):
            content = (stored.source, stored.target)
            if wanted.get(stored.external_id or content) == content:
                written.pop(stored.external_id or content, None)
                kept += 1
            else:
                gone.append(stored.id)
    if gone:
        withdraw(gone)
    added = ingest(store, _Units(chunks, frozenset((*written.values(), *refused)), path), corpus)
    return Synchronized(added, kept, len(gone))


class _Units:
    """Ingest `Source` for the units of a TMX file at given positions (from 0), with all rejected units."""

    format = OBJECTS
    bytes_total = None
    bytes_read = 0

    def __init__(self, chunks: Sequence[LineColumns], places: frozenset[int], origin: str) -> None:
        self.origin = origin
        self._chunks = chunks
        self._places = places

    def choose(self, languages: Languages | None) -> None:
        """Do nothing, because the languages are already chosen."""

    @property
    def fields(self) -> Iterator[LineColumns]:
        """Chunks of the pairs."""
        place = count()
        for units in self._chunks:
            chosen = [next(place) in self._places for _ in units.numbers]
            yield LineColumns(
                list(compress(units.numbers, chosen)),
                list(compress(units.sources, chosen)),
                list(compress(units.targets, chosen)),
                list(compress(units.alignments, chosen)),
                list(compress(units.ids, chosen)),
                rejected=units.rejected,
            )
