"""The grammar of a store, as an export of it would hold it, without a file."""

import tempfile
from dataclasses import dataclass
from pathlib import Path

from hierogram.daemon.corpora.texts import pipeline_of
from hierogram.daemon.decoding.grammars import TranslationGrammar, packed
from hierogram.daemon.decoding.rule_files import TABBED, RuleReader
from hierogram.daemon.exceptions import InputError, NothingLearnedError, WrongKindError
from hierogram.daemon.exports.filters import apply_filters, shape_of
from hierogram.daemon.exports.formats.registry import FORMATS
from hierogram.daemon.exports.options import ExportOptions
from hierogram.daemon.exports.tables.loading import Counted, load_rules
from hierogram.daemon.exports.tables.rule_alignments import load_inner_alignments
from hierogram.daemon.exports.tables.scratch import scratch
from hierogram.daemon.exports.writing import Wanted, prepare
from hierogram.daemon.progress import Progress
from hierogram.samplers.grammar.kinds import LINKS, TRANSLATION, notation_of
from hierogram.samplers.grammar.uses import ONE_USE
from hierogram.storage.exports.snapshot import Snapshot
from hierogram.storage.store import Store

_MEMORY = 1 << 30


@dataclass(frozen=True, slots=True)
class StoredGrammar:
    """The grammar of a store, and the store position that it shows."""

    grammar: TranslationGrammar
    position: int


def stored_grammar(store: Store, options: ExportOptions, max_scope: int, shown: Progress) -> StoredGrammar:
    """The grammar of a store with the counts, filters and features that the options name.

    Raises `WrongKindError` where its rules do not have two sides each, `NothingLearnedError` where there are none.
    """
    notation = notation_of(store.settings().grammar)
    if TRANSLATION not in notation.offers:
        raise WrongKindError(f"{store.url}: {notation.cannot('translate')}: its rules do not have two sides each")
    with store.snapshot() as snapshot, tempfile.TemporaryDirectory(prefix="hierogram-") as folder:
        if not snapshot.status().rules:
            raise NothingLearnedError(store.url)
        table = _read(snapshot, options.resolved(), Path(folder), shown)
        texts = pipeline_of(snapshot.settings())
        return StoredGrammar(packed(table.table(), max_scope, texts), snapshot.position())


def _read(snapshot: Snapshot, options: ExportOptions, folder: Path, shown: Progress) -> RuleReader:
    settings = snapshot.settings()
    has_links = LINKS in notation_of(settings.grammar).offers
    table = FORMATS["parquet"]
    chosen = table.of_grammar(notation_of(settings.grammar), options.features)
    wanted = Wanted(options, table, Counted(None, not options.drawn), 1 if options.drawn else ONE_USE)
    names = tuple(feature.name for feature in table.chosen(chosen))
    with scratch(folder, _MEMORY) as database:
        load_rules(database, snapshot, wanted.counted, sorted(shape_of(options).union(table.shape)))
        if has_links:
            load_inner_alignments(database, snapshot, wanted.counted)
        apply_filters(database, options, wanted.samples)
        prepare(database, snapshot, wanted)
        values = ", ".join(f"CAST({name} AS VARCHAR)" for name in names)
        line = f"concat_ws('\t', source, target, alignment, concat_ws(' ', {values}))"
        query = f"SELECT {line} FROM scored ORDER BY source, target"
        reader = RuleReader(f"the rules of {snapshot.status().url}", table.name, names, TABBED)
        for rules in reader.read(database.lines(query)):
            shown.update(rules, None, rules)
    if not reader.rules:
        raise InputError("the filters leave no rule: widen them")
    return reader
