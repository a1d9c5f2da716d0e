"""`GrammarStore`: an open store, with methods to add pairs, learn, query, export and maintain it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, contextmanager, suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, Unpack

from hierogram.daemon.exceptions import DaemonError, InputError, NothingLearnedError, UsageError, WrongKindError
from hierogram.daemon.files import is_database
from hierogram.daemon.library.options import (
    AFTER_EVENT,
    KINDS,
    PathLike,
    check_integer,
    check_text,
    list_ids,
    make_options,
    resolve_options,
)
from hierogram.daemon.library.tables import RuleTable, table_from_rows, table_from_store
from hierogram.daemon.progress import Phases, Steps
from hierogram.daemon.shared_options import LIBRARY_LIMIT, SWEEPS, THREADS, DictionaryOptions
from hierogram.daemon.text.ingest import DEFAULT_CORPUS, IngestReport, ingest
from hierogram.daemon.text.memory_input import Frame, MemoryPairs, PairLike, convert_corrections
from hierogram.daemon.text.pair_files import OpenFiles, PairFiles
from hierogram.daemon.text.pipeline import TextPipeline, TextSide, check_settings, make_pipeline
from hierogram.daemon.text.reading import IngestOptions
from hierogram.daemon.text.rejections import RejectionError
from hierogram.daemon.text.word_view import WordView
from hierogram.samplers.exceptions import RuleNotationError
from hierogram.samplers.grammar.kinds import PARSES, GrammarKind, find_grammar_kind
from hierogram.samplers.grammar.known_links import KnownLinks
from hierogram.samplers.grammar.rules import Rule, render_side
from hierogram.samplers.grammar.settings import ANNEALED, DIRICHLET
from hierogram.storage.browsing.reader import Reader
from hierogram.storage.browsing.sql_runner import SpooledResult, SqlRunner
from hierogram.storage.database.backup import postgres_commands
from hierogram.storage.database.connection import sqlite_file
from hierogram.storage.database.migration import check_schema
from hierogram.storage.exceptions import StoreError, StoreMissingError
from hierogram.storage.options import MAX_NUMBER, OptionField
from hierogram.storage.records.grammar import RuleRow, SupportingPair
from hierogram.storage.records.operations import EventPage, Lease, StoreStatus
from hierogram.storage.records.settings import Settings
from hierogram.storage.store import Store, open_store
from hierogram.storage.store import upgrade as upgrade_schema

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
    from hierogram.daemon.library.synchronizing import Synchronized
    from hierogram.daemon.text.dictionaries import Dictionary
    from hierogram.daemon.text.treebanks.reading import OpenTreebank
    from hierogram.daemon.text.treebanks.transformations import Transformations

_WITHDRAWAL_TIMEOUT, _POLL_INTERVAL = 60.0, 0.1
"""Seconds to wait until another process has withdrawn pairs, and seconds between checks."""
_UNLIMITED = (1 << 31) - 2
"""Maximum row count of FETCH in Postgres, minus the row that is fetched to detect further rows."""


class SqlResult(NamedTuple):
    """Result of a query. `more` is True if the query has more rows than its `limit`."""

    columns: list[str]
    rows: list[tuple[Any, ...]]
    more: bool


class FoundRules(NamedTuple):
    """Search result. `respelled` is True if the rules differ from the query in accents or capital letters."""

    rules: list[RuleRow]
    respelled: bool = False


class Withdrawn(NamedTuple):
    """Number of withdrawn pairs. `writer` is the lease of another process that removes them, or None."""

    pairs: int
    writer: Lease | None


def _make_settings(values: Mapping[str, object]) -> Settings:
    settings = resolve_options(Settings, None, values)
    if settings.model == DIRICHLET:
        # Anneal by default, because chains that start at a low temperature seldom change their first rules.
        defaults: dict[str, Any] = {"schedule": ANNEALED, "temperature": 10.0, "annealing": 280}
        settings = replace(settings, **{name: value for name, value in defaults.items() if name not in values})
    check_settings(settings)
    if settings.type_moves and settings.model != DIRICHLET:
        raise UsageError(f"type_moves requires the model {DIRICHLET}, got {settings.model}")
    return settings


def open(
    url: PathLike, *, create: bool = False, upgrade: bool = False, **values: Unpack[SettingsKeywords]
) -> GrammarStore:
    """Open the store at a URL or path. With `create`, create it if it does not exist.

    `url` is `sqlite:///grammar.db`, `postgresql://user@host/database`, or a path that ends in `.db`. `values` are the
    settings of `hierogram init`. They cannot be changed, so an existing store must have the same values. With
    `upgrade`, a store of an older version gets the schema of this version, and `upgraded_from` is the previous version
    of the schema.

    Raises `UsageError`, `StoreUrlError`, `StoreMissingError`, `StoreUnavailableError`, `SchemaOutdatedError`, and
    `StoreError` if the store has other settings or was created by a newer version.
    """
    settings = _make_settings(values) if values or create else Settings()
    before, after = upgrade_schema(str(url)) if upgrade else (None, None)
    created = False
    try:
        opened = open_store(str(url))
    except StoreMissingError:
        if not create:
            raise
        opened, created = open_store(str(url), create=True, settings=settings), True
    stored, requested = asdict(opened.settings()) if values else {}, asdict(settings)
    changed = [name for name in stored if name in values and requested[name] not in (None, stored[name])]
    if differing := [f"{name} is {stored[name]}, not {requested[name]}" for name in changed]:
        opened.close()
        raise StoreError(
            f"{opened.url} already exists, and its {'; '.join(differing)}: settings cannot be changed; create another "
            "store"
        )
    return GrammarStore(opened, created, upgraded_from=None if before == after else before)


@contextmanager
def open_input(
    files: Sequence[PathLike], *, format: str, dictionary: bool, trees: bool, nbest: bool
) -> Iterator[PairFiles | Dictionary | MemoryPairs | OpenTreebank]:
    """Open files, a treebank or a dictionary for `GrammarStore.add`. Raises `InputError`, `UsageError`."""
    from hierogram.daemon.text.burrito import BURRITO, burrito_pairs
    from hierogram.daemon.text.dictionaries import Dictionary
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
            raise UsageError(f"format {BURRITO} requires three files: ALIGNMENT.json SOURCE.tsv TARGET.tsv")
        yield MemoryPairs(burrito_pairs(*paths), paths[0])
    else:
        with Dictionary(paths[0], format) if dictionary else PairFiles(paths, format) as opened:
            yield opened


class GrammarStore(AbstractContextManager["GrammarStore"]):
    """Store of sentence pairs or trees and of the learned grammar. Created by `open`.

    As a context manager, the object closes the store at the end. Methods are thread-safe. Only one process at a time
    writes the grammar. While another process does, `learn` and `repair` raise `StoreHeldError`, and `withdraw` and
    `set_links` store a request for that process. These four methods stop an earlier learning run of the object. All
    changes are made in transactions, so the store remains consistent after an interruption. All methods raise
    `StoreUnavailableError` if the database fails. Options are keyword arguments, or an instance of the options
    dataclass that the method names. `created` is True if `open` created the store, and `upgraded_from` is the previous
    version of the schema if `open` upgraded it, else None.
    """

    def __init__(self, store: Store, created: bool = False, upgraded_from: str | None = None) -> None:
        self.store = store
        self.created = created
        self.upgraded_from = upgraded_from
        self._lock = threading.Lock()
        self._reader: Reader | None = None
        self._aligner: TextAligner | None = None
        self._learning: Learning | None = None

    @property
    def url(self) -> str:
        """URL of the store, without a password."""
        return self.store.url

    @property
    def reader(self) -> Reader:
        """Read-only connection, used as `with store.reader.read() as transaction`. Closed with the store."""
        with self._lock:
            if self._reader is None:
                self._reader = Reader(self.store.engine.url)
            return self._reader

    @property
    def aligner(self) -> TextAligner:
        """Aligner of pairs that are not stored. Raises `WrongKindError` if the store contains trees."""
        from hierogram.daemon.learning.alignment.text_aligner import TextAligner

        with self._lock:
            if self._aligner is None:
                self._aligner = TextAligner(self.store)
            return self._aligner

    def close(self) -> None:
        """Stop learning and close the store."""
        self._end_learning()
        if self._reader is not None:
            self._reader.close()
        self.store.close()

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"GrammarStore({self.url!r})"

    def settings(self) -> Settings:
        """Return the settings of the store. The first text sets some of them, see `Settings`."""
        return self.store.settings()

    def grammar_kind(self) -> GrammarKind:
        """Return the store's kind of grammar: its input, its capabilities, and names for messages."""
        return find_grammar_kind(self.settings().grammar)

    def writer(self) -> Lease | None:
        """Return the lease of the process that writes the grammar, or None."""
        return self.store.lease()

    def status(self) -> StoreStatus:
        """Return size and learning progress in constant time. Raises `StoreError` if the schema has changed."""
        check_schema(self.store.engine)
        return self.store.status()

    def add(
        self,
        pairs: PathLike | Iterable[PairLike] | Frame | PairFiles | Dictionary | MemoryPairs | OpenTreebank,
        *files: PathLike,
        corpus: str | None = None,
        origin: str = "python",
        format: str = "auto",
        languages: tuple[str, str] | None = None,
        dictionary_options: DictionaryOptions | None = None,
        transformations: Transformations | None = None,
        nbest: bool = False,
        progress: Callable[[IngestReport], None] | None = None,
    ) -> IngestReport:
        """Store pairs. Returns counts of accepted, repeated and rejected lines, rejection reasons and notes.

        `pairs` are tuples (source, target) or (source, target, links), mappings with the fields of JSON lines, a data
        frame with these columns, the result of `open_input`, or a file name, with more names in `files`. Files have the
        formats of `hierogram ingest`; a store of trees accepts treebanks. `origin` is the name of the input if `pairs`
        are in memory. It is stored with the pairs, appears in notes and rejections, and selects pairs in `withdraw`.
        The setting `tokenize` determines if text without links is tokenized; if it is None, the first text sets it.
        With `dictionary_options`, the file is a dictionary, whose default corpus is `dictionary`. Pairs that the corpus
        already contains are skipped. Raises `InputError`, `UsageError`.
        """
        from hierogram.daemon.text.treebanks.ingest import ingest_open
        from hierogram.daemon.text.treebanks.reading import OpenTreebank

        trees, dictionary = self.grammar_kind().input_kind == PARSES, dictionary_options is not None
        if (nbest or transformations is not None) and not (trees or isinstance(pairs, OpenTreebank)):
            raise UsageError("nbest and transformations require a store of trees")
        if dictionary_options is not None:
            dictionary_options = resolve_options(DictionaryOptions, dictionary_options, {})
        with ExitStack() as stack:
            added = pairs
            if isinstance(added, str | Path):
                added = stack.enter_context(
                    open_input([added, *files], format=format, dictionary=dictionary, trees=trees, nbest=nbest)
                )
            elif files:
                raise UsageError("files require a file name as the first argument, got pairs in memory")
            if isinstance(added, OpenTreebank):
                return ingest_open(self.store, added, transformations, corpus or DEFAULT_CORPUS, progress)
            source: Any = added if isinstance(added, OpenFiles | MemoryPairs) else MemoryPairs(added, origin)
            default = "dictionary" if dictionary else DEFAULT_CORPUS
            options = IngestOptions(languages, dictionary=dictionary_options)
            return ingest(self.store, source, corpus or default, progress, options)

    def learn(
        self,
        sweeps: int | None = None,
        *,
        threads: int | None = None,
        likelihood_every: int = 1,
        options: LearnOptions | None = None,
    ) -> Learning:
        """Return a learning run. Iterate over the run for single sweeps, or call its method `run`.

        New pairs first pass the burn-in schedule; then all pairs are sampled `sweeps` times (default 24, or 74 for
        trees and ITGs). The log-likelihood is computed every `likelihood_every` sweeps, in time proportional to the
        number of rules. `options` replaces `threads` and `likelihood_every`. Neither the number of threads nor
        interruptions change the result. Raises `UsageError`. The run raises `StoreHeldError` if another process writes
        the store's grammar.
        """
        from hierogram.daemon.learning.learner import LearnOptions
        from hierogram.daemon.library.learning import Learning

        if sweeps is not None:
            sweeps = check_integer("sweeps", sweeps, SWEEPS)
        if threads is not None:
            threads = check_integer("threads", threads, THREADS)
        every = OptionField.of(LearnOptions)["likelihood_every"].option
        likelihood_every = check_integer("likelihood_every", likelihood_every, every)
        self._end_learning()
        options = options or LearnOptions(threads, likelihood_every=likelihood_every)
        self._learning = Learning(self.store, sweeps, options)
        return self._learning

    def _end_learning(self) -> None:
        if self._learning is not None:
            self._learning.stop()
            self._learning = None

    def synchronize(
        self, tmx_file: PathLike, corpus: str = DEFAULT_CORPUS, *, languages: tuple[str, str] | None = None
    ) -> Synchronized:
        """Make a corpus equal to a TMX file. Units are identified by their `tuid`, or else by their texts.

        If another process writes the grammar, that process removes the pairs to withdraw. After a minute of waiting,
        `DaemonError` is raised, and no pair is added. Also raises `InputError` and `UsageError`.
        """
        from hierogram.daemon.library.synchronizing import synchronize

        def withdraw_and_wait(ids: Sequence[int]) -> None:
            writer = self.withdraw(ids).writer
            deadline = time.monotonic() + _WITHDRAWAL_TIMEOUT
            while writer and self.store.pairs_by_id([ids[0], ids[-1]]):
                if time.monotonic() >= deadline:
                    raise DaemonError(
                        f"corpus {corpus}: `{writer.command}` (process {writer.pid} on {writer.host}) did not remove "
                        f"all {len(ids):,} obsolete pairs within {_WITHDRAWAL_TIMEOUT:g} s, so no pairs were added: "
                        "check that process, and synchronize again"
                    )
                time.sleep(_POLL_INTERVAL)

        return synchronize(self.store, str(tmx_file), corpus, withdraw_and_wait, languages=languages)

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

        `source` and `target` are whole sides, such as `la [X,1] de`. `containing` is a text or a sequence of words;
        each word must occur on one of the sides. If no rule matches, rules that differ only in accents or case are
        returned. With a condition or a `limit`, rules are sorted by uses, most used first; otherwise by id. Order and
        probabilities follow expected uses, or with `current_sample` the uses in the current derivations. Raises
        `UsageError`.
        """
        if source is None and target is None and limit is None and not containing:
            with self.store.snapshot() as snapshot:
                return table_from_store(snapshot, current_sample)
        limit = MAX_NUMBER - 1 if limit is None else limit
        with suppress(NothingLearnedError):
            found = self.find_rules(source, target, containing=containing, limit=limit, current_sample=current_sample)
            return table_from_rows(found.rules)
        return table_from_rows([])

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
        """Return up to `limit` rules that meet the conditions of `rules`, most used first.

        `after` has uses, source and target of the last rule of the previous page. Raises `NothingLearnedError` if the
        store has no rules, and `UsageError`.
        """
        source = None if source is None else check_text("source", source)
        target = None if target is None else check_text("target", target)
        words = containing.split() if isinstance(containing, str) else [check_text("containing", w) for w in containing]
        limit = check_integer("limit", limit, LIBRARY_LIMIT)
        queries: list[tuple[str | None, str | None, Sequence[str]]] = [(source, target, words)]
        for sides in _query_tokenizers(self.settings()):
            # Tokenize the words for each side, because each side has its own tokenizer.
            word_lists = [" ".join(map(side.tokens, words)).split(" ") for side in sides] if words else [[]]
            with suppress(RuleNotationError):
                split_source, split_target = (
                    text if text is None else side.convert_rule_side(text)
                    for side, text in zip(sides, (source, target), strict=True)
                )
                queries += [(split_source, split_target, split_words) for split_words in word_lists]
        # Search for the query as typed, then for the tokenized query, then for other spellings.
        for respelled in (False, True):
            for query_source, query_target, query_words in queries:
                rules = self.store.find_rules(
                    query_source, query_target, words=query_words, limit=limit, after=after,
                    current_sample=current_sample, respelled=respelled,
                )  # fmt: skip
                if rules:
                    return FoundRules(rules, respelled)
        if not self.store.status().rules_in_use:
            raise NothingLearnedError(self.url)
        return FoundRules([])

    def index(self, progress: Steps = lambda *_: None) -> int:
        """Index newly sampled pairs by their rules. Returns the number of pairs, 0 for a read-only store."""
        from hierogram.daemon.learning.indexing import index_occurrences

        waiting = 0 if self.store.read_only else self.store.count_unindexed()
        return index_occurrences(self.store, lambda done: progress(done, waiting)) if waiting else 0

    def pairs_using(self, source: str, target: str, limit: int = 20) -> list[SupportingPair]:
        """Return up to `limit` pairs or trees whose current derivation uses a rule.

        Newly sampled pairs are indexed first; a read-only store omits them. Raises `RuleNotationError`, `UsageError`.
        """
        rule = Rule.parse(f"{source} ||| {target}")
        limit = check_integer("limit", limit, LIBRARY_LIMIT)
        self.index()
        return self.store.supporting_pairs(render_side(rule.source), render_side(rule.target), limit)

    def pairs(self) -> Iterator[StoredPair]:
        """Return an iterator over all stored pairs or trees, in the order of their ids."""
        from hierogram.daemon.library.pairs import StoredPair

        settings = self.settings()
        return (StoredPair.from_row(row, settings) for row in self.store.pairs())

    def pair(self, pair_id: int) -> StoredPair:
        """Return a stored pair or tree by its id. Raises `InputError` if it does not exist."""
        from hierogram.daemon.library.pairs import StoredPair, rows_by_id

        [row] = rows_by_id(self.store, [pair_id])
        return StoredPair.from_row(row, self.settings())

    def set_links(self, links: Mapping[int, KnownLinks], origin: str = "python") -> Lease | None:
        """Fix and forbid links, given by pair id. Earlier corrections of these pairs are replaced.

        `KnownLinks()` removes all corrections of a pair. If another process writes the grammar, that process re-aligns
        the pairs, and its lease is returned. Otherwise this call re-aligns the pairs and returns None. Raises
        `InputError`, and `WrongKindError` if the store's grammar does not use links, before anything is stored.
        """
        from hierogram.daemon.learning.alignment.incremental import apply_pending_corrections

        grammar_kind = self.grammar_kind()
        if not grammar_kind.needs_links:
            raise WrongKindError(f"{self.url}: {grammar_kind.cannot('use links')}; nothing was stored")
        self._end_learning()
        view = WordView(self.settings().word_parts)
        token_links: dict[int, KnownLinks] = {}
        for row in self.store.pairs_by_id(list(links)):
            try:
                token_links[row.id] = view.pair(row.source, row.target).to_token_links(
                    convert_corrections(links[row.id])
                )
            except (ValueError, RejectionError) as error:
                raise InputError(f"pair {row.id}: {error}; nothing was stored") from error
        if missing := [pair for pair in links if pair not in token_links]:
            raise InputError(f"pair {missing[0]} not found; nothing was stored")
        for pair in links:
            self.store.set_human_links(pair, token_links[pair], origin)
        writer = self.writer()
        if writer is None:
            apply_pending_corrections(self.store)
        return writer

    def query(self, sql: str, *, limit: int = 500, seconds: float = 10.0, sql_url: str | None = None) -> SqlResult:
        """Return up to `limit` rows of a SELECT over the tables and views of `docs/sql.md`.

        The SELECT cannot change the store. On Postgres it runs as the role of `sql_url` (default: the store's URL).
        Raises `QueryError`, and `SlowQueryError` after `seconds`.
        """
        with closing(self.open_query_result(sql, limit=limit, seconds=seconds, sql_url=sql_url)) as result:
            return SqlResult(result.columns, [tuple(row) for row in result.rows], result.more)

    def open_query_result(
        self, sql: str, *, limit: int | None = None, seconds: float = 10.0, sql_url: str | None = None
    ) -> SpooledResult:
        """Return the rows of a SELECT in a temporary file, for large results. Close the result after use.

        By default, all rows are returned. For the other arguments and errors, see `query`.
        """
        rows = _UNLIMITED if limit is None else min(check_integer("limit", limit, LIBRARY_LIMIT), _UNLIMITED)
        with closing(SqlRunner(self.store.engine.url, sql_url, own_role=sql_url is None)) as sql_runner:
            return sql_runner.query(sql, seconds, rows, cells=_UNLIMITED, size=_UNLIMITED)

    def export(
        self,
        path: PathLike | BinaryIO | None = None,
        *,
        options: ExportOptions | None = None,
        progress: Phases | None = None,
        **overrides: Unpack[ExportKeywords],
    ) -> Manifest:
        """Write the grammar to a file, atomically, with a manifest beside it, and return the manifest.

        Options are the fields of `ExportOptions`, such as `max_scope=2, min_count=0.5`. The file name determines format
        and compression, as in `grammar.cdec.gz` or `rules.parquet`. The default path is `grammar` in the current
        folder, with the suffixes of format and compression. An open binary file gets the rules without a manifest.
        Raises `ExportError`, `UsageError`, `NothingLearnedError`.
        """
        from hierogram.daemon.exports.exporting import export, export_to
        from hierogram.daemon.exports.options import ExportOptions

        options = resolve_options(ExportOptions, options, overrides)
        if isinstance(path, str) and path.endswith("/"):
            raise UsageError(f"{path} is a folder: expected a file")
        if isinstance(path, str | Path) and is_database(Path(path)):
            raise UsageError(f"{path} is a database: use another file")
        if path is None or isinstance(path, str | Path):
            return export(self.store, None if path is None else Path(path), options, progress)
        return export_to(self.store, path, options, progress)

    def publish(
        self,
        folder: PathLike,
        name: str = "grammar",
        *,
        keep: int | None = None,
        options: ExportOptions | None = None,
        progress: Phases | None = None,
        **overrides: Unpack[ExportKeywords],
    ) -> Published:
        """Write the grammar as a new version in a folder, and point the link `latest` to this version.

        Versions older than the newest `keep` are deleted, by default none. `folder` can also be a URL of object
        storage, such as `s3://bucket/prefix`. Options are the fields of `ExportOptions`. Raises the errors of `export`.
        """
        from hierogram.daemon.exports.exporting import publish
        from hierogram.daemon.exports.options import KEEP, Destination, ExportOptions
        from hierogram.daemon.exports.publication import Versions, open_folder

        keep = None if keep is None else check_integer("keep", keep, KEEP)
        make_options(Destination, {"to": str(folder), "name": check_text("name", name), "keep": keep})
        options = resolve_options(ExportOptions, options, overrides)
        return publish(self.store, Versions(open_folder(folder), name, keep), options, report=progress)

    def verify(self, progress: Steps | None = None) -> VerifyReport:
        """Recount all rules and links, check all tables, and report the problems."""
        from hierogram.daemon.learning.verifying import verify

        return verify(self.store, progress)

    def repair(self, *, dry_run: bool = False, progress: Steps | None = None) -> RepairReport:
        """Recompute all derived data of the store: rule counts, aligner counts, indexes and totals.

        Unreadable derivations and alignments are deleted, so that their pairs are learned again. With `dry_run`, the
        changes are only reported. Raises `StoreHeldError` if another process writes the store's grammar.
        """
        from hierogram.daemon.learning.repairing import repair

        self._end_learning()
        return repair(self.store, progress, dry_run=dry_run)

    def back_up(self, path: PathLike, progress: Steps | None = None, *, force: bool = False) -> int:
        """Copy an SQLite store to a file, and return the file's size in bytes.

        Other processes may write at the same time. The copy is complete or not created. `force` replaces an existing
        file. Raises `StoreError` if copying fails, and `UsageError` if `path` is not a valid destination or the store
        is on Postgres. For Postgres, the message contains the commands for a backup.
        """
        file, store_file = Path(path), sqlite_file(self.store.engine.url)
        if store_file is None:
            dump, restore = postgres_commands(self.url, str(file))
            raise UsageError(
                f"{self.url}: back up a store on Postgres with\n  {dump}\nand restore it with\n  {restore}"
            )
        if problem := _backup_problem(file, store_file, force):
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

        Pairs are selected either by `ids`, or by `corpus`, `origin` and `external_ids`, which must all match. If
        another process writes the grammar, that process removes the pairs. Raises `UsageError` if ids and conditions
        are both given or both missing, and `InputError` if no pair matches.
        """
        from hierogram.daemon.learning.learner import split_transactions, withdraw_all
        from hierogram.daemon.learning.lease import holding_lease

        ids = list_ids(ids)
        if bool(ids) == (corpus is not None or origin is not None or bool(external_ids)):
            raise UsageError("select pairs either by ids, or by corpus, origin and external_ids")
        self._end_learning()
        unit = self.grammar_kind().singular
        matching = ids or self.store.select_pairs(corpus=corpus, origin=origin, external_ids=external_ids)
        if not matching:
            raise InputError(f"no matching {unit} found; nothing was withdrawn")
        writer = self.writer()
        if writer:
            number = sum(len(self.store.request_withdrawals(part)) for part in split_transactions(matching))
        else:
            with holding_lease(self.store, "hierogram withdraw"):
                number = withdraw_all(self.store, matching, progress)
        if not number:
            raise InputError(f"no {unit} with these ids found; nothing was withdrawn")
        return Withdrawn(number, writer)

    def events(self, after: int | None = None, limit: int = 1_000, kinds: Collection[str] = ()) -> EventPage:
        """Return up to `limit` events of `kinds` (default: all), oldest first, with ids above `after`.

        Raises `UsageError` if an argument is invalid.
        """
        after = None if after is None else check_integer("after", after, AFTER_EVENT)
        limit = check_integer("limit", limit, LIBRARY_LIMIT)
        if problem := KINDS.problem(tuple(kinds)):
            raise UsageError(f"kinds: {problem}")
        return self.store.events(after, limit, kinds)


def _query_tokenizers(settings: Settings) -> Iterator[tuple[TextSide, TextSide]]:
    if settings.word_parts:
        words = TextPipeline(word_parts=settings.word_parts)
        yield words.source, words.target
    # Ignore missing tokenizer packages, because a machine that only reads the store may lack them.
    with suppress(UsageError):
        pipeline = make_pipeline(settings)
        if pipeline.rules is not None:
            yield pipeline.source, pipeline.target


def _backup_problem(file: Path, store: Path, force: bool) -> str | None:
    if not file.parent.is_dir():
        return f"the folder {file.parent} does not exist: create it first"
    if file.is_dir():
        return "is a folder: expected a file"
    if file.exists() and file.samefile(store):
        return "is the store itself: use another file"
    if file.exists() and not force:
        return "already exists: use another file, or the option force to replace it"
    return "is a store in use: use another file" if Path(f"{file}-wal").exists() else None
