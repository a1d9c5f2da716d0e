"""The store as a Python object, with a method for each command that reads or changes a store."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, Self, Unpack

from hierogram.daemon.exceptions import InputError, NothingLearnedError, UsageError, WrongKindError
from hierogram.daemon.files import is_database
from hierogram.daemon.library.options import (
    PathLike,
    check_integer,
    check_text,
    make_options,
    resolve_options,
    whole_numbers,
)
from hierogram.daemon.progress import Phases, Steps
from hierogram.daemon.text.entries import DictionaryOptions
from hierogram.daemon.text.ingest import DEFAULT_CORPUS, IngestReport
from hierogram.daemon.text.memory_input import Frame, GivenPair, GivenPairs, known_links
from hierogram.daemon.text.rejections import RejectionError
from hierogram.samplers.grammar.kinds import PARSES, Notation, find_notation
from hierogram.samplers.grammar.known_links import KnownLinks
from hierogram.samplers.grammar.settings import ANNEALED, DIRICHLET
from hierogram.storage.browsing.reader import Reader
from hierogram.storage.database.backup import postgres_commands
from hierogram.storage.database.connection import sqlite_file
from hierogram.storage.database.migration import check_schema
from hierogram.storage.exceptions import StoreError, StoreMissingError
from hierogram.storage.options import MAX_NUMBER
from hierogram.storage.records import GIVEN, Lease, Settings, StoreStatus
from hierogram.storage.records.operations import EventPage
from hierogram.storage.store import Store, open_store
from hierogram.storage.store import upgrade as bring_up_to_date

if TYPE_CHECKING:
    from hierogram.daemon.exports.exporting import Published
    from hierogram.daemon.exports.options import ExportOptions
    from hierogram.daemon.exports.publication import Manifest
    from hierogram.daemon.learning.alignment.text_aligner import TextAligner
    from hierogram.daemon.learning.learner import LearnOptions
    from hierogram.daemon.learning.repairing import RepairReport
    from hierogram.daemon.learning.verifying import VerifyReport
    from hierogram.daemon.library.keywords import ExportKeywords, SettingsKeywords
    from hierogram.daemon.library.learning import Learning
    from hierogram.daemon.library.pairs import StoredPair
    from hierogram.daemon.library.rule_search import FoundRules
    from hierogram.daemon.library.synchronizing import Synchronized
    from hierogram.daemon.library.tables import RuleTable
    from hierogram.daemon.text.dictionaries import Dictionary
    from hierogram.daemon.text.reading import Input
    from hierogram.daemon.text.treebanks.reading import OpenTreebank
    from hierogram.daemon.text.treebanks.transformations import Transformations
    from hierogram.storage.browsing.sql_runner import SpooledResult
    from hierogram.storage.records import SupportingPair

OF_DIRICHLET: dict[str, Any] = {"schedule": ANNEALED, "temperature": 10.0, "annealing": 280}
"""Default settings of a store under a Dirichlet process.

Chains that begin at a low temperature keep their first rules.
"""

_LEAVING_SECONDS, _LOOK_SECONDS = 60.0, 0.1
_UNLIMITED = (1 << 31) - 2
"""The largest number of rows that FETCH of Postgres takes, less one."""

DICTIONARY_CORPUS = "dictionary"
"""Default corpus of dictionary entries."""


class SqlResult(NamedTuple):
    """Result of a SQL question: column names, rows, and whether the question has more rows."""

    columns: list[str]
    rows: list[tuple[Any, ...]]
    more: bool


class Withdrawn(NamedTuple):
    """Number of pairs that were removed, or that the process that writes the grammar will remove."""

    pairs: int
    left_to: Lease | None


def make_settings(chosen: Mapping[str, object]) -> Settings:
    """Return the settings of a new store: the chosen ones, and defaults for the others.

    A Dirichlet process gets the schedule `annealed` from T = 10 over 280 sweeps, unless `chosen` says otherwise.
    Raises `UsageError`.
    """
    from hierogram.daemon.text.texts import check_settings

    settings = make_options(Settings, chosen)
    if settings.model == DIRICHLET:
        settings = replace(settings, **{name: value for name, value in OF_DIRICHLET.items() if name not in chosen})
    check_settings(settings)
    if settings.type_moves and settings.model != DIRICHLET:
        raise UsageError("--type-moves requires an exchangeable model: use --model dirichlet")
    return settings


def open(
    url: PathLike,
    *,
    create: bool = False,
    upgrade: bool = False,
    **chosen: Unpack[SettingsKeywords],
) -> GrammarStore:
    """Open the store at a URL or path; with `create`, make a missing store.

    `url` is `sqlite:///grammar.db`, `postgresql://user@host/database`, or a path that ends in `.db`. `chosen` are the
    options of `hierogram init`. A store keeps them for life, so an existing store must have the same values. With
    `upgrade`, a store of an older version gets the schema of this version; its old schema version is `upgraded_from`.

    Raises `UsageError`, `StoreUrlError`, `StoreMissingError`, `StoreUnavailableError`, `SchemaOutdatedError`, and
    `StoreError` if the store has other settings or a newer version made it.
    """
    wanted = make_settings(chosen) if chosen or create else Settings()
    before = bring_up_to_date(str(url))[0] if upgrade else None
    try:
        opened = open_store(str(url))
    except StoreMissingError:
        if not create:
            raise
        return GrammarStore(open_store(str(url), create=True, settings=wanted), made=True)
    has, asked = asdict(opened.settings()) if chosen else {}, asdict(wanted)
    unlike = [name for name in has if name in chosen and has[name] != asked[name]]
    if differing := [f"{name} is {has[name]}, not {asked[name]}" for name in unlike]:
        opened.close()
        raise StoreError(
            f"{opened.url} already exists, and its {'; '.join(differing)}: settings cannot be changed, create another "
            "store instead"
        )
    return GrammarStore(opened, upgraded_from=before)


@contextmanager
def open_input(
    files: Sequence[PathLike],
    *,
    format: str = "auto",
    dictionary: bool = False,
    trees: bool = False,
    nbest: bool = False,
) -> Iterator[Input | Dictionary | GivenPairs | OpenTreebank]:
    """Open files for `GrammarStore.add`, which finds unreadable files before a store is made.

    A dictionary, a file of trees and a file of n-best lists is one file. Raises `InputError`, `UsageError`.
    """
    from hierogram.daemon.text.burrito import BURRITO, burrito_pairs
    from hierogram.daemon.text.dictionaries import Dictionary
    from hierogram.daemon.text.reading import Input
    from hierogram.daemon.text.treebanks.reading import TreebankFile, open_treebank

    paths = list(map(str, files))
    if (trees or dictionary) and len(paths) != 1:
        raise UsageError(
            "a dictionary must be one file" if dictionary else "a store of trees ingests one file at a time"
        )
    if trees:
        with open_treebank(TreebankFile(paths[0], nbest)) as treebank:
            yield treebank
    elif format == BURRITO:
        if len(paths) != 3:
            raise UsageError("--format burrito requires three files: ALIGNMENT.json SOURCE.tsv TARGET.tsv")
        yield GivenPairs(burrito_pairs(paths[0], paths[1], paths[2]), paths[0])
    else:
        with Dictionary(paths[0], format) if dictionary else Input(paths, format) as opened:
            yield opened


class GrammarStore:
    """A store of sentence pairs, or trees, and the grammar that is learned from them; `open` makes one.

    The object is a context manager: it closes the store at the end of a `with` block. Several threads may call its
    methods. Only one thread or process at a time may learn, repair or withdraw; the others get `StoreHeldError`.
    Each change is one transaction, so an interrupted method leaves a consistent store. All methods raise
    `StoreUnavailableError` if the database fails. Options are given by name, or as the options dataclass that the
    method names. `made` is True if `open` made the store.
    """

    def __init__(self, store: Store, made: bool = False, upgraded_from: str | None = None) -> None:
        self.store = store
        self.made = made
        self.upgraded_from = upgraded_from
        self._lock = threading.Lock()
        self._reader: Reader | None = None
        self._aligner: TextAligner | None = None
        self._learning: Learning | None = None

    @property
    def url(self) -> str:
        """The URL of the store, without a password."""
        return self.store.url

    @property
    def reader(self) -> Reader:
        """Return a read-only connection: `with store.reader.read() as read`. It closes with the store."""
        with self._lock:
            if self._reader is None:
                self._reader = Reader(self.store.engine.url)
            return self._reader

    @property
    def aligner(self) -> TextAligner:
        """Return an aligner of pairs that are not stored. Raises `WrongKindError`."""
        from hierogram.daemon.learning.alignment.text_aligner import TextAligner

        with self._lock:
            if self._aligner is None:
                self._aligner = TextAligner(self.store)
            return self._aligner

    def close(self) -> None:
        """Stop learning, and close the store."""
        self._end_learning()
        if self._reader is not None:
            self._reader.close()
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"GrammarStore({self.url!r})"

    def _repr_html_(self) -> str:
        from hierogram.daemon.library.tables import html_table

        now = self.status()
        one = self.notation().many
        likelihood = "" if now.last_log_likelihood is None else f"{now.last_log_likelihood:,.1f}"
        rows = [
            (one, ", ".join(f"{number:,} {state}" for state, number in now.pairs.items())),
            ("rules in use", f"{now.rules_in_use:,}, {now.rule_tokens:,} uses"),
            ("rules expected", f"{now.rules_expected:,}, {now.expected_tokens:,.0f} expected uses"),
            ("sweeps", f"{now.sweeps:,}"),
            ("log-likelihood", likelihood),
        ]
        return html_table((self.url, ""), rows)

    def settings(self) -> Settings:
        """Return the settings of the store."""
        return self.store.settings()

    def notation(self) -> Notation:
        """Return the kind of grammar in the store, with the words for its units: pairs or trees."""
        return find_notation(self.settings().grammar)

    def writer(self) -> Lease | None:
        """Return the process that writes the store's grammar, or None."""
        return self.store.lease()

    def status(self) -> StoreStatus:
        """Return the store's size and learning progress, in constant time.

        Raises `StoreError` if another version has changed the schema since the store was opened.
        """
        check_schema(self.store.engine)
        return self.store.status()

    def add(
        self,
        pairs: PathLike | Iterable[GivenPair] | Frame | Input | Dictionary | GivenPairs | OpenTreebank,
        *files: PathLike,
        corpus: str | None = None,
        origin: str = "python",
        format: str = "auto",
        languages: tuple[str, str] | None = None,
        tokenize: tuple[str, str] | None = None,
        entries: DictionaryOptions | None = None,
        transformations: Transformations | None = None,
        nbest: bool = False,
        progress: Callable[[IngestReport], None] | None = None,
    ) -> IngestReport:
        """Store pairs, and return the numbers of accepted, repeated and rejected lines, with reasons and notes.

        `pairs` are tuples (source, target) or (source, target, links), mappings with the fields of JSON lines, a data
        frame with these columns, the result of `open_input`, or a file name, with more names in `files`. File formats
        are the formats of `hierogram ingest`; a store of trees accepts treebanks. `origin` names pairs in memory in
        notes and rejections; pairs of files have the file name. Tokens are separated by spaces unless the store or
        `tokenize` sets a tokenizer. With `entries`, the file is a dictionary. A pair that the corpus contains is not
        stored again. Raises `InputError`, `UsageError`.
        """
        from hierogram.daemon.text.ingest import ingest
        from hierogram.daemon.text.reading import IngestOptions, OpenFiles
        from hierogram.daemon.text.treebanks.ingest import ingest_open
        from hierogram.daemon.text.treebanks.reading import OpenTreebank

        trees, dictionary = self.notation().takes == PARSES, entries is not None
        if (nbest or transformations is not None) and not (trees or isinstance(pairs, OpenTreebank)):
            raise UsageError("nbest and transformations require a store of trees")
        with ExitStack() as stack:
            given = pairs
            if isinstance(given, str | Path):
                given = stack.enter_context(
                    open_input([given, *files], format=format, dictionary=dictionary, trees=trees, nbest=nbest)
                )
            elif files:
                raise UsageError("pairs and files are mutually exclusive")
            if isinstance(given, OpenTreebank):
                return ingest_open(self.store, given, transformations, corpus or DEFAULT_CORPUS, progress)
            source: Any = given if isinstance(given, OpenFiles | GivenPairs) else GivenPairs(given, origin)
            default = DEFAULT_CORPUS if entries is None else DICTIONARY_CORPUS
            options = IngestOptions(languages, tokenize, entries=entries)
            return ingest(self.store, source, corpus or default, progress, options)

    def learn(
        self,
        sweeps: int | None = None,
        *,
        threads: int | None = None,
        likelihood_every: int = 1,
        options: LearnOptions | None = None,
    ) -> Learning:
        """Return the learning process: iterate over its sweeps, or call its `run`.

        New pairs go through the schedule; then all pairs get `sweeps` more (default 74). The log-likelihood is computed
        every `likelihood_every` sweeps, in time proportional to the store. `options` replaces these arguments. Neither
        the number of threads nor interruptions change the result. Raises `StoreHeldError` if another process writes the
        store's grammar, and `UsageError`.
        """
        from hierogram.daemon.learning.learner import LearnOptions
        from hierogram.daemon.library.learning import Learning

        if sweeps is not None:
            sweeps = check_integer("sweeps", sweeps, 0)

        self._end_learning()
        wanted = options or LearnOptions(threads, likelihood_every=likelihood_every)
        self._learning = Learning(self.store, sweeps, wanted)
        return self._learning

    def _end_learning(self) -> None:
        if self._learning is not None:
            self._learning.stop()
            self._learning = None

    def synchronize(
        self, memory: PathLike, corpus: str = DEFAULT_CORPUS, *, languages: tuple[str, str] | None = None
    ) -> Synchronized:
        """Make a corpus equal to a TMX file: add units with a new `tuid`, remove deleted ones, replace changed ones.

        If another process writes the grammar, the call waits up to a minute for it. Raises `InputError`.
        """
        from hierogram.daemon.library.synchronizing import synchronize

        def leave(ids: Sequence[int]) -> None:
            left = self.withdraw(ids)
            until = time.monotonic() + _LEAVING_SECONDS
            while left.left_to and self.store.pairs_by_id([*ids[:1], *ids[-1:]]) and time.monotonic() < until:
                time.sleep(_LOOK_SECONDS)

        return synchronize(self.store, str(memory), corpus, leave, languages=languages)

    def rules(
        self,
        source: str | None = None,
        target: str | None = None,
        *,
        containing: str | Sequence[str] = (),
        limit: int | None = None,
        current_sample: bool = False,
    ) -> RuleTable:
        """Return a table of all rules, or of the rules that meet every condition.

        `source` and `target` are whole sides, such as `la [X,1] de`. `containing` is a text or several words, which can
        be on either side. If no rule has this spelling, rules with other accents or case are returned. With a
        condition, up to `limit` rules are returned, most used first; without one, all rules in the order of the store.
        Uses and probabilities are expected values, or counts of the current derivations with `current_sample`. Raises
        `UsageError`.
        """
        from hierogram.daemon.library.tables import table_from_rows, table_from_store

        if source is None and target is None and limit is None and not containing:
            with self.store.snapshot() as snapshot:
                return table_from_store(snapshot, current_sample)
        most = MAX_NUMBER - 1 if limit is None else limit
        return table_from_rows(self._found(source, target, containing, most, None, current_sample).rules)

    def find_rules(
        self,
        source: str | None = None,
        target: str | None = None,
        *,
        containing: str | Sequence[str] = (),
        limit: int = 20,
        after: tuple[float, str, str] | None = None,
        current_sample: bool = False,
    ) -> FoundRules:
        """Return the most used rules that `rules` would find, and whether their spelling differs from the given one.

        `after` is the uses, source and target of the last rule of the previous page. Raises `NothingLearnedError`,
        `UsageError`.
        """
        found = self._found(source, target, containing, limit, after, current_sample)
        if not found.rules and not self.store.status().rules_in_use:
            raise NothingLearnedError(self.url)
        return found

    def _found(
        self,
        source: str | None,
        target: str | None,
        containing: str | Sequence[str],
        limit: int,
        after: tuple[float, str, str] | None,
        current_sample: bool,
    ) -> FoundRules:
        from hierogram.daemon.library.rule_search import find_rules

        source = None if source is None else check_text("source", source)
        target = None if target is None else check_text("target", target)
        words = (
            containing.split() if isinstance(containing, str) else [check_text("containing", one) for one in containing]
        )
        most = check_integer("limit", limit, 0)
        return find_rules(self.store, source, target, words, limit=most, after=after, drawn=current_sample)

    def index(self, progress: Steps = lambda *_: None) -> int:
        """Index the rules of all pairs, or trees, that were sampled since the last call.

        Return the number of these pairs.

        In a read-only store nothing is indexed, and the number is 0.
        """
        from hierogram.daemon.learning.occurrences import index_occurrences

        waiting = 0 if self.store.read_only else self.store.count_unindexed()
        return index_occurrences(self.store, lambda done: progress(done, waiting)) if waiting else 0

    def pairs_using(self, source: str, target: str, limit: int = 20) -> list[SupportingPair]:
        """Return pairs, or trees, whose present derivation uses a rule; new derivations are indexed first.

        Raises `RuleNotationError`.
        """
        from hierogram.samplers.grammar.rules import Rule, render_side

        wanted = Rule.parse(f"{source} ||| {target}")
        self.index()
        return self.store.supporting_pairs(render_side(wanted.source), render_side(wanted.target), limit)

    def pairs(self) -> Iterator[StoredPair]:
        """Yield all stored pairs, or trees, in order of their numbers."""
        from hierogram.daemon.library.pairs import StoredPair

        settings = self.settings()
        return (StoredPair(row, settings) for row in self.store.pairs())

    def pair(self, number: int) -> StoredPair:
        """Return a stored pair, or tree, with its links and present derivation. Raises `InputError`."""
        from hierogram.daemon.library.pairs import StoredPair, rows_by_id

        [row] = rows_by_id(self.store, [number])
        return StoredPair(row, self.settings())

    def in_parts(
        self,
        url: PathLike,
        *,
        bpe_merges: tuple[int | None, int | None] = (None, None),
        progress: Steps = lambda *_: None,
    ) -> GrammarStore:
        """Make a store of the same pairs with words divided into parts, and return it.

        The parts of each side are learned by at most `bpe_merges` merges (source, target). 0 keeps whole words; None
        divides the words of a side only if the language is rich in forms. A link that a person made, or that came with
        the pair, becomes links between all parts of its two words. The aligner makes its links again. The new store has
        learned nothing yet. An interrupted call continues where it stopped. Raises `UsageError` if words are divided
        already, and `StoreError` if `url` is another store.
        """
        from hierogram.daemon.text.ingest import ingest
        from hierogram.daemon.text.reading import IngestOptions
        from hierogram.daemon.text.segments import subword_settings

        settings = self.settings()
        if settings.bpe_merges:
            raise UsageError(f"{self.url}: words are already split into subwords: expected a store of words")
        if self.notation().takes == PARSES:
            raise UsageError(f"{self.url}: {self.notation().cannot('split words into subwords')}")
        rows = self.store.pairs()
        divided = subword_settings(settings, [row.source for row in rows], [row.target for row in rows], bpe_merges)
        known = self.store.human_links([row.id for row in rows])
        by_corpus: dict[str, list[dict[str, Any]]] = {}
        with self.store.snapshot() as snapshot:
            places = snapshot.places([row.id for row in rows])
        for number, row in enumerate(rows, 1):
            place = places[row.id]
            own: dict[str, Any] = {"source": row.source, "target": row.target, "id": place.external_id}
            if row.aligned_by == GIVEN:
                own["alignment"] = row.alignment
            if row.id in known:
                own |= {"fixed": sorted(known[row.id].fixed), "forbidden": sorted(known[row.id].forbidden)}
            by_corpus.setdefault(place.corpus, []).append(own)
            progress(number, len(rows))
        try:
            opened, is_new = open_store(str(url)), False
        except StoreMissingError:
            opened, is_new = open_store(str(url), create=True, settings=divided), True
        made = GrammarStore(opened, made=is_new)
        if replace(made.settings(), key_salt=divided.key_salt) != divided:
            made.close()
            raise StoreError(f"{url} already exists and is another store: choose a new one")
        for corpus, pairs in by_corpus.items():
            ingest(made.store, GivenPairs(pairs), corpus, options=IngestOptions(words=True))
        return made

    def set_links(self, links: Mapping[int, KnownLinks], origin: str = "python") -> Lease | None:
        """Fix and forbid links of pairs, by pair number.

        Earlier fixed and forbidden links of these pairs are replaced.

        `KnownLinks()` removes them. The process that writes the grammar aligns the pairs again and is returned; without
        one, this call aligns them. Raises `InputError`, and then stores nothing; `WrongKindError` if the store learns
        from pairs without links.
        """
        from hierogram.daemon.learning.alignment.incremental import apply_pending_corrections
        from hierogram.daemon.text.segments import WordView

        notation = self.notation()
        if not notation.linked:
            raise WrongKindError(f"{self.url}: {notation.cannot('use links')}; nothing was stored")
        self._end_learning()
        view = WordView(self.settings().bpe_merges)
        of_tokens: dict[int, KnownLinks] = {}
        for row in self.store.pairs_by_id(list(links)):
            try:
                of_tokens[row.id] = view.pair(row.source, row.target).of_tokens(known_links(links[row.id]))
            except (ValueError, RejectionError) as error:
                raise InputError(f"pair {row.id}: {error}; nothing was stored") from error
        if missing := [pair for pair in links if pair not in of_tokens]:
            raise InputError(f"pair {missing[0]} not found; nothing was stored")
        for pair in links:
            self.store.set_human_links(pair, of_tokens[pair], origin)
        holder = self.writer()
        if holder is None:
            apply_pending_corrections(self.store)
        return holder

    def query(self, question: str, *, limit: int = 500, seconds: float = 10.0, sql_url: str | None = None) -> SqlResult:
        """Return the rows of one SELECT over the tables and views of `docs/sql.md`, at most `limit` rows.

        The SELECT cannot change anything. On Postgres it runs under the role of `sql_url`, by default that of the
        store's URL. Raises `QueryError`, and `SlowQueryError` after `seconds`.
        """
        from hierogram.storage.browsing.sql_runner import SqlRunner

        with ExitStack() as stack:
            sql_runner = stack.enter_context(
                closing(SqlRunner(self.store.engine.url, sql_url, own_role=sql_url is None))
            )
            found = stack.enter_context(closing(sql_runner.query(question, seconds, limit)))
            return SqlResult(found.columns, [tuple(row) for row in found.rows], found.more)

    def open_answer(self, question: str, *, limit: int | None = None, seconds: float = 10.0) -> SpooledResult:
        """Return the rows of one SELECT as an open file, for results of any size. Close it after use.

        On Postgres the SELECT runs under the role of the store's URL. Raises the errors of `query`.
        """
        from hierogram.storage.browsing.sql_runner import SqlRunner

        with closing(SqlRunner(self.store.engine.url, own_role=True)) as sql_runner:
            return sql_runner.query(question, seconds, limit or _UNLIMITED, _UNLIMITED, _UNLIMITED)

    def export(
        self,
        path: PathLike | BinaryIO | None = None,
        *,
        options: ExportOptions | None = None,
        progress: Phases | None = None,
        **chosen: Unpack[ExportKeywords],
    ) -> Manifest:
        """Write the grammar to a file, with a manifest beside it, and return the manifest.

        The file appears whole or not at all.

        Options are those of `ExportOptions`: `max_scope=2, min_count=0.5`. The file name gives format and compression:
        `grammar.cdec.gz`, `rules.parquet`. An open binary file gets the rules without a manifest. Raises `ExportError`,
        `UsageError`, `NothingLearnedError`.
        """
        from hierogram.daemon.exports.exporting import export, export_to
        from hierogram.daemon.exports.options import ExportOptions

        wanted = resolve_options(ExportOptions, options, chosen)
        if isinstance(path, str) and path.endswith("/"):
            raise UsageError(f"{path} is a folder: expected a file")
        if isinstance(path, str | Path) and is_database(Path(path)):
            raise UsageError(f"{path} is a database: use another file")
        if path is None or isinstance(path, str | Path):
            return export(self.store, None if path is None else Path(path), wanted, progress)
        return export_to(self.store, path, wanted, progress)

    def publish(
        self,
        folder: PathLike,
        name: str = "grammar",
        *,
        keep: int | None = None,
        sentences: PathLike | None = None,
        options: ExportOptions | None = None,
        progress: Phases | None = None,
        **chosen: Unpack[ExportKeywords],
    ) -> Published:
        """Write the grammar as a new version in a folder.

        The folder keeps `keep` versions; the link `latest` names the newest.

        With `sentences`, a file, the version is one cdec grammar for each sentence. Options are those of
        `ExportOptions`. Raises the errors of `export`.
        """
        from hierogram.daemon.exports.exporting import publish
        from hierogram.daemon.exports.options import ExportOptions
        from hierogram.daemon.exports.publication import Versions

        wanted = resolve_options(ExportOptions, options, chosen)
        if sentences is not None:
            if wanted.format not in (None, "cdec"):
                raise UsageError("--sentences writes cdec grammars: leave out --format")
            if wanted.filter_for is not None:
                raise UsageError("--sentences and --filter-for are mutually exclusive")
            wanted = replace(wanted, format="cdec", filter_for=Path(sentences))
        versions, by_sentence = Versions(Path(folder), name, keep), sentences is not None
        return publish(self.store, versions, wanted, report=progress, by_sentence=by_sentence)

    def verify(self, progress: Steps | None = None) -> VerifyReport:
        """Count all rules again from the derivations, check all tables, and return the differences."""
        from hierogram.daemon.learning.verifying import verify

        return verify(self.store, progress)

    def repair(self, *, keep: bool = True, progress: Steps | None = None) -> RepairReport:
        """Set all counts to those of the derivations, and return the changes; without `keep`, only report them.

        Raises `StoreHeldError` if another process writes the store's grammar.
        """
        from hierogram.daemon.learning.repairing import repair

        self._end_learning()
        return repair(self.store, progress, keep=keep)

    def back_up(self, path: PathLike, progress: Steps | None = None, *, force: bool = False) -> int:
        """Copy an SQLite store to a file, and return the file's size in bytes.

        Other processes may write at the same time. The copy is complete or not created. `force` replaces an existing
        file. Raises `StoreError`, and `UsageError` if the file cannot be written or the store is on Postgres; the
        message then names the backup commands of Postgres.
        """
        file, here = Path(path), sqlite_file(self.store.engine.url)
        if here is None:
            back_up, bring_back = postgres_commands(self.url, str(file))
            raise UsageError(
                f"{self.url}: back up a store on Postgres with\n  {back_up}\nand restore it with\n  {bring_back}"
            )
        if problem := _backup_problem(file, here, force):
            raise UsageError(f"{file}: {problem}")
        return self.store.back_up(file, progress)

    def withdraw(
        self,
        ids: int | Iterable[int] = (),
        *,
        corpus: str | None = None,
        origin: str | None = None,
        external_ids: Sequence[str] = (),
        progress: Callable[[int], None] = lambda _: None,
    ) -> Withdrawn:
        """Remove pairs from the store, with their derivations and counts.

        The pairs have one of these `ids`, or meet all other conditions. If another process writes the grammar, that
        process
        removes them. Raises `UsageError` if neither ids nor conditions are given, and `InputError` if no pair is found.
        """
        from hierogram.daemon.learning.residents import split_transactions, withdraw_all

        ids = whole_numbers(ids)
        if bool(ids) == (corpus is not None or origin is not None or bool(external_ids)):
            raise UsageError("select pairs by their numbers, or by corpus, origin and external_ids")
        self._end_learning()
        one = self.notation().one
        found = ids or self.store.select_pairs(corpus=corpus, origin=origin, external_ids=external_ids)
        if not found:
            raise InputError(f"no matching {one} found; nothing was withdrawn")
        holder = self.writer()
        if holder:
            number = sum(len(self.store.request_withdrawals(some)) for some in split_transactions(found))
        else:
            from hierogram.daemon.learning.learner import holding_lease

            with holding_lease(self.store, "hierogram withdraw"):
                number = withdraw_all(self.store, found, progress)
        if not number:
            raise InputError(f"no {one} with this number found; nothing was withdrawn")
        return Withdrawn(number, holder)

    def events(self, after: int | None = None, limit: int = 1_000, kinds: Collection[str] = ()) -> EventPage:
        """Return the changes since a position, the number of the last known event; None means the oldest kept event."""
        return self.store.events(after, limit, kinds)


def _backup_problem(file: Path, store: Path, force: bool) -> str | None:
    """Return the reason why the copy may not be written to a file, or None."""
    if not file.parent.is_dir():
        return f"the folder {file.parent} does not exist: create it first"
    if file.is_dir():
        return "is a folder: expected a file"
    if file.exists() and file.samefile(store):
        return "is the store itself: use another file"
    if file.exists() and not force:
        return "already exists: use another file, or --force to replace it"
    return "is a store in use: use another file" if Path(f"{file}-wal").exists() else None
