"""A store, as programs open it: what commands do, in one object."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import asdict, replace
from itertools import islice
from operator import index
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, NamedTuple, Self, Unpack

from hierogram.daemon.exceptions import InputError, NothingLearnedError, UsageError, WrongKindError
from hierogram.daemon.files import is_database
from hierogram.daemon.library.options import PathLike, a_text, make_options, options_of, whole_number
from hierogram.daemon.prefetch import made_in_threads
from hierogram.daemon.progress import silence
from hierogram.daemon.text.entries import Entries
from hierogram.daemon.text.given import Frame, GivenPair, GivenPairs, known_links
from hierogram.daemon.text.ingest import DEFAULT_CORPUS, IngestReport
from hierogram.daemon.text.rejections import RejectionError
from hierogram.samplers.grammar.kinds import PARSES, Notation, notation_of
from hierogram.samplers.grammar.known_links import KnownLinks
from hierogram.samplers.grammar.settings import ANNEALED, DIRICHLET
from hierogram.storage.browsing import progress as of_store
from hierogram.storage.browsing.reader import Reader
from hierogram.storage.database.backup import postgres_commands
from hierogram.storage.database.connection import sqlite_file
from hierogram.storage.database.migration import check_schema
from hierogram.storage.exceptions import StoreError, StoreMissingError
from hierogram.storage.options import LARGEST_NUMBER
from hierogram.storage.records import GIVEN, Claim, Settings, StoreStatus
from hierogram.storage.records.operations import EventPage
from hierogram.storage.store import Store, open_store
from hierogram.storage.store import upgrade as bring_up_to_date

if TYPE_CHECKING:
    from datetime import datetime

    from hierogram.daemon.exports.exporting import Published
    from hierogram.daemon.exports.exporting import Report as ExportProgress
    from hierogram.daemon.exports.options import ExportOptions
    from hierogram.daemon.exports.publication import Manifest
    from hierogram.daemon.learning.alignment.answering import AnsweringAligner
    from hierogram.daemon.learning.learner import LearnOptions
    from hierogram.daemon.learning.repairing import RepairReport
    from hierogram.daemon.learning.verifying import VerifyReport
    from hierogram.daemon.library.finding import FoundRules
    from hierogram.daemon.library.keywords import (
        ChainKeywords,
        EvidenceKeywords,
        ExportKeywords,
        SettingsKeywords,
        TermKeywords,
    )
    from hierogram.daemon.library.learning import Learning
    from hierogram.daemon.library.pairs import StoredPair
    from hierogram.daemon.library.tables import RuleTable
    from hierogram.daemon.text.dictionaries import Dictionary
    from hierogram.daemon.text.reading import Input
    from hierogram.daemon.text.treebanks.reading import OpenTreebank
    from hierogram.daemon.text.treebanks.transformations import Transformations
    from hierogram.storage.records import PairRow, SupportingPair
    from hierogram.tools.diagnosis.diagnosis import Diagnosis
    from hierogram.tools.diagnosis.options import ChainOptions
    from hierogram.tools.evidence.gathering import Evidence
    from hierogram.tools.evidence.options import EvidenceOptions
    from hierogram.tools.integrations.tmx_exchange import Synchronized
    from hierogram.tools.integrations.translation_memory import NearPair
    from hierogram.tools.scores.records import PairScore
    from hierogram.tools.scores.scoring import Scorer
    from hierogram.tools.terms.options import TermOptions
    from hierogram.tools.terms.reports import TermReport
    from hierogram.tools.translation.corrections import Corrections
    from hierogram.tools.translation.opening import Follower
    from hierogram.tools.translation.text_translator import TextTranslation

Steps = Callable[[int, int], None]
"""Hears how much is done, of how much."""

OF_DIRICHLET: dict[str, Any] = {"schedule": ANNEALED, "temperature": 10.0, "annealing": 280}
"""Of a Dirichlet process, where they are not chosen: from lower temperatures chains do not forget where they began."""

_LEAVING_SECONDS, _LOOK_SECONDS = 60.0, 0.1

DICTIONARY_CORPUS = "dictionary"
"""Corpus of entries, where none is named."""


class ScoredPair(NamedTuple):
    """A pair, by its number in the store or among those given, from 1, and its score; None where there is a `problem`,
    such as an empty side."""

    number: int
    source: str
    target: str
    score: PairScore | None
    problem: str | None = None


class Answer(NamedTuple):
    """The names of the columns, the rows, and whether there are more."""

    columns: list[str]
    rows: list[tuple[Any, ...]]
    more: bool


class Glance(NamedTuple):
    """A store at work: what it holds, pairs that are not settled, how fast it samples lately, the latest rules."""

    store: str
    position: int
    holds: str
    pairs: dict[str, int]
    lag: int
    rules_in_use: int
    sweeps: int
    pair_sweeps_per_second: float
    log_likelihood: float | None
    latest_rules: list[dict[str, Any]]


class Withdrawn(NamedTuple):
    """Number of pairs that have left; or that will leave, by whoever writes the store's grammar."""

    pairs: int
    left_to: Claim | None


def settings_of(chosen: Mapping[str, object]) -> Settings:
    """Return the settings of a new store by those that are chosen; raises `UsageError`.

    A Dirichlet process gets the schedule `annealed`, from T = 10 over 280 sweeps, unless `chosen` says otherwise.
    """
    from hierogram.daemon.text.texts import check_settings

    settings = make_options(Settings, chosen)
    if settings.model == DIRICHLET:
        settings = replace(settings, **{name: value for name, value in OF_DIRICHLET.items() if name not in chosen})
    check_settings(settings)
    if settings.type_moves and settings.model != DIRICHLET:
        raise UsageError("--type-moves: they need an exchangeable model: --model dirichlet")
    return settings


def open(
    url: PathLike,
    *,
    create: bool = False,
    upgrade: bool = False,
    **chosen: Unpack[SettingsKeywords],
) -> GrammarStore:
    """Open the store at a URL or path; with `create`, make it first if there is none.

    `url` is `sqlite:///grammar.db`, `postgresql://user@host/database`, or a path ending in `.db`. `chosen` are options
    of `hierogram init`, which are fixed for a store's life; an existing store must have the same values. With
    `upgrade`, an older store is first taken to this version's schema, and `upgraded_from` is the one that it had.
    Raises `UsageError`, `StoreUrlError`, `StoreMissingError`, `StoreUnavailableError`, `SchemaOutdatedError`, and
    `StoreError` where a newer version made the store, or it has other settings.
    """
    wanted = settings_of(chosen) if chosen or create else Settings()
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
            f"there is a store at {opened.url}, and its {'; '.join(differing)}: settings are fixed for a store's life, "
            "make another one for other settings"
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
    """Open files for `GrammarStore.add`, to see whether they can be read before there is a store for them.

    A `dictionary` and a file of `trees`, or of `nbest` lists of these, is one file. Raises `InputError`, `UsageError`.
    """
    from hierogram.daemon.text.burrito import BURRITO, burrito_pairs
    from hierogram.daemon.text.dictionaries import Dictionary
    from hierogram.daemon.text.reading import Input
    from hierogram.daemon.text.treebanks.reading import TreebankFile, open_treebank

    paths = list(map(str, files))
    if (trees or dictionary) and len(paths) != 1:
        raise UsageError("a dictionary is one file" if dictionary else "a store of trees takes one file at a time")
    if trees:
        with open_treebank(TreebankFile(paths[0], nbest)) as treebank:
            yield treebank
    elif format == BURRITO:
        if len(paths) != 3:
            raise UsageError("--format burrito takes three files: ALIGNMENT.json SOURCE.tsv TARGET.tsv")
        yield GivenPairs(burrito_pairs(paths[0], paths[1], paths[2]), paths[0])
    else:
        with Dictionary(paths[0], format) if dictionary else Input(paths, format) as opened:
            yield opened


class GrammarStore:
    """A store of sentence pairs, or trees, and the grammar that is learned from them; made by `open`.

    A context manager that closes it. Its methods may be called from several threads; one of them, or one process, at a
    time may learn, repair or withdraw, and the others get `StoreHeldError` meanwhile. Every method leaves a sound store
    if it is interrupted: each change is one transaction. All raise `StoreUnavailableError` when the database fails.
    Options are fields of the dataclass that a method names, given by name, or the dataclass as `options`. `made` says
    whether the store was not there before it was opened.
    """

    def __init__(self, store: Store, made: bool = False, upgraded_from: str | None = None) -> None:
        self.store = store
        self.made = made
        self.upgraded_from = upgraded_from
        self._lock = threading.Lock()
        self._reader: Reader | None = None
        self._aligner: AnsweringAligner | None = None
        self._learning: Learning | None = None
        self._follower: Follower | None = None
        self._scorer: Scorer | None = None
        """What was read for scores, for as long as the store stays as it was."""

    @property
    def url(self) -> str:
        """The URL of the store, without a password."""
        return self.store.url

    @property
    def reader(self) -> Reader:
        """Return a reader, which cannot write: `with store.reader.look() as look`; it is closed with the store."""
        with self._lock:
            if self._reader is None:
                self._reader = Reader(self.store.engine.url)
            return self._reader

    @property
    def corrections(self) -> Corrections:
        """Return what people corrected translations to, and take more of it."""
        from hierogram.tools.translation.corrections import Corrections

        return Corrections(self.store, self.reader, self.withdraw)

    @property
    def aligner(self) -> AnsweringAligner:
        """Return an aligner of pairs that are not stored, each for itself; raises `WrongKindError`."""
        from hierogram.daemon.learning.alignment.answering import AnsweringAligner

        with self._lock:
            if self._aligner is None:
                self._aligner = AnsweringAligner(self.store)
            return self._aligner

    def close(self) -> None:
        """End what is being learned, and close the store."""
        self._end_learning()
        if self._reader is not None:
            self._reader.close()
        self.store.close()

    def __enter__(self) -> Self:
        """Return the store."""
        return self

    def __exit__(self, *_: object) -> None:
        """Close."""
        self.close()

    def __repr__(self) -> str:
        return f"GrammarStore({self.url!r})"

    def _repr_html_(self) -> str:
        """Return how much the store holds, and how far it is, for a notebook."""
        from hierogram.daemon.library.tables import html_table

        now = self.status()
        one = self.notation().many
        likelihood = "" if now.last_log_likelihood is None else f"{now.last_log_likelihood:,.1f}"
        rows = [
            (one, ", ".join(f"{number:,} {state}" for state, number in now.pairs.items())),
            ("rules in use", f"{now.rules_in_use:,}, used {now.rule_tokens:,} times"),
            ("rules expected to be used", f"{now.rules_expected:,}, {now.expected_tokens:,.0f} times"),
            ("sweeps", f"{now.sweeps:,}"),
            ("log-likelihood", likelihood),
        ]
        return html_table((self.url, ""), rows)

    def settings(self) -> Settings:
        """Return the settings that the store was made with."""
        return self.store.settings()

    def notation(self) -> Notation:
        """Return the kind of grammar that the store holds, which says what its things are called: pairs or trees."""
        return notation_of(self.settings().grammar)

    def writer(self) -> Claim | None:
        """Return who writes the store's grammar; None where nobody does."""
        return self.store.lease()

    def status(self) -> StoreStatus:
        """Return how much the store holds and how far learning has come; takes the same time whatever its size.

        Raises `StoreError` where another version has changed the store's schema by now.
        """
        check_schema(self.store.engine)
        return self.store.status()

    def glance(self, sweeps: int = 20, rules: int = 15) -> Glance:
        """Return how the store is at work: how fast over the last `sweeps`, and the latest `rules` in use."""
        with self.reader.look() as look:
            now, latest = of_store.store_status(look, self.url), of_store.latest_rules(look, rules)
            last, kind = of_store.last_sweeps(look, sweeps), notation_of(look.settings().grammar)
        seconds = sum(sweep["seconds"] for sweep in last)
        rate = sum(sweep["pairs"] for sweep in last) / seconds if seconds else 0.0
        return Glance(
            now.url, now.position, kind.one, now.pairs, sum(now.behind.values()), now.rules_in_use, now.sweeps, rate,
            now.last_log_likelihood, latest,
        )  # fmt: skip

    def add(
        self,
        pairs: PathLike | Iterable[GivenPair] | Frame | Input | Dictionary | GivenPairs | OpenTreebank,
        *files: PathLike,
        corpus: str | None = None,
        origin: str = "python",
        format: str = "auto",
        languages: tuple[str, str] | None = None,
        tokenize: tuple[str, str] | None = None,
        entries: Entries | None = None,
        transformations: Transformations | None = None,
        nbest: bool = False,
        progress: Callable[[IngestReport], None] | None = None,
    ) -> IngestReport:
        """Store pairs, and return the numbers of accepted, duplicate and rejected lines, the reasons, and notes.

        `pairs` are tuples (source, target) or (source, target, links), mappings as JSON lines have them, a data frame
        with such columns, what `open_input` has opened, or the first of `files`: as `hierogram ingest` takes them, of
        trees where the store is one of trees. Pairs from memory are known by their `origin`, as files are by their
        names. Tokens are separated by spaces where the store, or `tokenize`, does not divide text. With `entries`, a
        file is a dictionary. What was stored before is left alone. Raises `InputError`, `UsageError`.
        """
        from hierogram.daemon.text.ingest import ingest
        from hierogram.daemon.text.reading import IngestOptions, OpenFiles
        from hierogram.daemon.text.treebanks.ingest import ingest_open
        from hierogram.daemon.text.treebanks.reading import OpenTreebank

        trees, dictionary = self.notation().takes == PARSES, entries is not None
        if (nbest or transformations is not None) and not (trees or isinstance(pairs, OpenTreebank)):
            raise UsageError("nbest and transformations are for a store of trees")
        with ExitStack() as stack:
            given = pairs
            if isinstance(given, str | Path):
                given = stack.enter_context(
                    open_input([given, *files], format=format, dictionary=dictionary, trees=trees, nbest=nbest)
                )
            elif files:
                raise UsageError("give pairs, or files: both are too much for one call")
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
        """Return what learns: iterate over its sweeps, or call its `run`.

        New pairs go through the schedule, then every pair through `sweeps` more (74). The log-likelihood, which takes
        time in proportion to the store, is computed every `likelihood_every` sweeps. `options` are other ways to learn,
        in place of these. The result depends neither on threads nor on interruptions. Raises `StoreHeldError` where
        another process writes the store's grammar, and `UsageError`.
        """
        from hierogram.daemon.learning.learner import LearnOptions
        from hierogram.daemon.library.learning import Learning

        if sweeps is not None:
            sweeps = whole_number("sweeps", sweeps, 0)

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
        """Make a corpus what a TMX file is: new units come in under their `tuid`, what is gone or changed leaves.

        Where another process writes the grammar, it is waited for, for a minute. Raises `InputError`.
        """
        from hierogram.tools.integrations.tmx_exchange import synchronize

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
        """Return rules as a table; all of them, or those that meet every condition.

        `source` and `target` are whole sides as `la [X,1] de`, the words of `containing`, a text or several, occur
        anywhere; where no rule is spelled so, rules whose words differ in accents or capital letters. Where something
        is asked for, the most used rules come first, `limit` of them at most; all rules come in the store's order. Uses
        and probabilities are expected ones, or with `current_sample` those of the present derivations.
        Raises `UsageError`.
        """
        from hierogram.daemon.library.tables import table_of_rows, table_of_store

        if source is None and target is None and limit is None and not containing:
            with self.store.snapshot() as snapshot:
                return table_of_store(snapshot, current_sample)
        most = LARGEST_NUMBER - 1 if limit is None else limit
        return table_of_rows(self._found(source, target, containing, most, None, current_sample).rules)

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
        """Return the most used rules as `rules` finds them, and whether their words are spelled differently.

        `after` is uses, source and target of the rule after which to go on. Raises `NothingLearnedError`, `UsageError`.
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
        from hierogram.daemon.library.finding import find_rules

        source = None if source is None else a_text("source", source)
        target = None if target is None else a_text("target", target)
        words = containing.split() if isinstance(containing, str) else [a_text("containing", one) for one in containing]
        most = whole_number("limit", limit, 0)
        return find_rules(self.store, source, target, words, limit=most, after=after, drawn=current_sample)

    def index(self, progress: Steps = lambda *_: None) -> int:
        """Count the rules of each pair, or tree, that was sampled since the last time; return how many these are.

        A read-only store keeps the index that it has.
        """
        from hierogram.daemon.learning.occurrences import index_occurrences

        waiting = 0 if self.store.read_only else self.store.count_unindexed()
        return index_occurrences(self.store, lambda done: progress(done, waiting)) if waiting else 0

    def pairs_using(self, source: str, target: str, limit: int = 20) -> list[SupportingPair]:
        """Return pairs, or trees, whose present derivation uses the rule with these sides, after indexing new ones.

        Raises `RuleNotationError`.
        """
        from hierogram.samplers.grammar.rules import Rule, render_side

        wanted = Rule.parse(f"{source} ||| {target}")
        self.index()
        return self.store.supporting_pairs(render_side(wanted.source), render_side(wanted.target), limit)

    def pairs(self) -> Iterator[StoredPair]:
        """Yield all stored pairs, or trees, by their numbers."""
        from hierogram.daemon.library.pairs import StoredPair

        settings = self.settings()
        return (StoredPair(row, settings) for row in self.store.pairs())

    def pair(self, number: int) -> StoredPair:
        """Return a stored pair, or tree, with its links and its present derivation; raises `InputError`."""
        from hierogram.daemon.library.pairs import StoredPair

        [row] = self._chosen([number])
        return StoredPair(row, self.settings())

    def in_parts(
        self,
        url: PathLike,
        *,
        bpe_merges: tuple[int | None, int | None] = (None, None),
        progress: Steps = lambda *_: None,
    ) -> GrammarStore:
        """Make a new store of the same pairs, with words divided into parts, and return it; nothing is learned yet.

        The parts are learned from the words of each side, by up to `bpe_merges` merges of source and target. Words of
        a side with 0 merges stay whole; None: only those of a side that is rich in forms are divided. Links that people
        made, or that pairs came with, hold between all parts of two linked words; the aligner's links are made again.
        Where this was interrupted, it goes on. Raises `UsageError` where words have parts already, `StoreError` where
        there is another store at `url`.
        """
        from hierogram.daemon.text.ingest import ingest
        from hierogram.daemon.text.reading import IngestOptions
        from hierogram.daemon.text.segments import settings_in_parts

        settings = self.settings()
        if settings.bpe_merges:
            raise UsageError(f"{self.url}: words have parts already: take a store of words")
        if self.notation().takes == PARSES:
            raise UsageError(f"{self.url}: {self.notation().cannot('have parts of words')}")
        rows = self.store.pairs()
        divided = settings_in_parts(settings, [row.source for row in rows], [row.target for row in rows], bpe_merges)
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
            raise StoreError(f"there is another store at {url} already: name one that is not there")
        for corpus, pairs in by_corpus.items():
            ingest(made.store, GivenPairs(pairs), corpus, options=IngestOptions(words=True))
        return made

    def set_links(self, links: Mapping[int, KnownLinks], origin: str = "python") -> Claim | None:
        """Fix and forbid links of pairs' words, by pairs' numbers, in place of all that was said of them before.

        `KnownLinks()` takes all of it back; its links may be in any collection. The pairs are aligned again, by who
        writes the grammar, who is returned, or here and now, where nobody does. Raises `InputError`, and then nothing
        is stored; `WrongKindError` where the store learns from pairs without links.
        """
        from hierogram.daemon.learning.alignment.incremental import correct_requested
        from hierogram.daemon.text.segments import InWords

        notation = self.notation()
        if not notation.linked:
            raise WrongKindError(f"{self.url}: {notation.cannot('use links')}: nothing was stored")
        self._end_learning()
        view = InWords(self.settings().bpe_merges)
        of_tokens: dict[int, KnownLinks] = {}
        for row in self.store.pairs_by_id(list(links)):
            try:
                of_tokens[row.id] = view.pair(row.source, row.target).of_tokens(known_links(links[row.id]))
            except (ValueError, RejectionError) as error:
                raise InputError(f"pair {row.id}: {error}: nothing was stored") from error
        if missing := [pair for pair in links if pair not in of_tokens]:
            raise InputError(f"there is no pair {missing[0]}: nothing was stored")
        for pair in links:
            self.store.set_human_links(pair, of_tokens[pair], origin)
        holder = self.writer()
        if holder is None:
            correct_requested(self.store)
        return holder

    def ask(self, question: str, *, limit: int = 500, seconds: float = 10.0, sql_url: str | None = None) -> Answer:
        """Return what one SELECT over the tables and views of `docs/sql.md` finds, at most `limit` rows of it.

        Nothing can be changed. A store on Postgres is asked under the role of `sql_url`. Raises `QuestionError`, and
        `SlowQueryError` where it takes longer than `seconds`.
        """
        from hierogram.storage.browsing.asking import Asker

        with ExitStack() as stack:
            asker = stack.enter_context(closing(Asker(self.store.engine.url, sql_url)))
            found = stack.enter_context(closing(asker.ask(question, seconds, limit)))
            return Answer(found.columns, [tuple(row) for row in found.rows], found.more)

    def export(
        self,
        path: PathLike | BinaryIO | None = None,
        *,
        options: ExportOptions | None = None,
        progress: ExportProgress | None = None,
        **chosen: Unpack[ExportKeywords],
    ) -> Manifest:
        """Write the grammar to a file, whole or not at all, with a manifest beside it, which is returned.

        Options are those of `ExportOptions`: `max_scope=2, min_count=0.5`. The name says format and compression:
        `grammar.cdec.gz`, `rules.parquet`. To an open file in binary mode the rules alone are written. Raises
        `ExportError`, `UsageError`, `NothingLearnedError`.
        """
        from hierogram.daemon.exports.exporting import export, export_to
        from hierogram.daemon.exports.options import ExportOptions

        wanted = options_of(ExportOptions, options, chosen)
        if isinstance(path, str) and path.endswith("/"):
            raise UsageError(f"{path} names a folder: name a file")
        if isinstance(path, str | Path) and is_database(Path(path)):
            raise UsageError(f"{path} is a database, as a store is: name another file")
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
        progress: ExportProgress | None = None,
        **chosen: Unpack[ExportKeywords],
    ) -> Published:
        """Write the grammar as a new version into a folder, of which `keep` stay; `latest` leads to it.

        With `sentences`, a file, it is a cdec grammar for each of them. Options are those of `ExportOptions`. Raises as
        `export` does.
        """
        from hierogram.daemon.exports.exporting import publish
        from hierogram.daemon.exports.options import ExportOptions
        from hierogram.daemon.exports.publication import Versions

        wanted = options_of(ExportOptions, options, chosen)
        if sentences is not None:
            if wanted.format not in (None, "cdec"):
                raise UsageError("--sentences writes a folder of cdec grammars: give no other format")
            if wanted.filter_for is not None:
                raise UsageError("--sentences filters for its own file: give no --filter-for")
            wanted = replace(wanted, format="cdec", filter_for=Path(sentences))
        versions, by_sentence = Versions(Path(folder), name, keep), sentences is not None
        return publish(self.store, versions, wanted, report=progress, by_sentence=by_sentence)

    def score(
        self,
        pairs: Iterable[tuple[str, str]] | None = None,
        *,
        ids: int | Iterable[int] = (),
        after: int = 0,
        keep: bool = False,
        tokenized: bool = False,
        progress: Callable[[str, int, int | None], None] | None = None,
    ) -> Iterator[ScoredPair]:
        """Yield the scores of pairs under all that is learned: of those given, or of stored ones, by `ids` or all.

        Of a stored pair, what it has itself added to the counts is taken out first. `after`: only pairs with a higher
        number. `keep` has the store keep the scores of its pairs before they are yielded. Raises
        `NothingLearnedError`, `InputError`.
        """
        from hierogram.tools.scores.learned import Learned, rows_of
        from hierogram.tools.scores.scoring import SCORED_AT_ONCE, Scorer, keep_scores, scored_texts

        report = progress or (lambda *_: None)
        if self._scorer is None or self._scorer.learned.position != self.store.position():
            self._scorer = Scorer(Learned(self.store, report), report)
        scorer = self._scorer
        threads = os.cpu_count() or 1
        if pairs is not None:
            from hierogram.daemon.text.texts import pipeline_of

            texts = pipeline_of(self.settings())
            texts = texts.of_words() if tokenized else texts
            numbered = ((number, texts.pair(*pair)) for number, pair in enumerate(pairs, 1) if number > after)
            read = ((number, source.split(), target.split()) for number, (source, target) in numbered)
            parts = iter(lambda: list(islice(read, SCORED_AT_ONCE)), [])
            for scored in made_in_threads(parts, lambda part: scored_texts(scorer, part), threads):
                yield from map(ScoredPair._make, scored)
            return
        rows = self._chosen(ids) if (ids := _whole_numbers(ids)) else rows_of(self.store, after)
        blocks = iter(lambda: list(islice(rows, SCORED_AT_ONCE)), [])
        for block, scores in made_in_threads(blocks, lambda block: (block, scorer.score_stored(block)), threads):
            if keep:
                keep_scores(self.store, scorer, block, scores)
            for row, (score, _) in zip(block, scores, strict=True):
                yield ScoredPair(row.id, row.source, row.target, score)

    def kept_scores(self, ids: int | Iterable[int] = (), after: int = 0) -> Iterator[ScoredPair]:
        """Yield the stored scores of the pairs with these `ids`, or of all pairs with a higher number than `after`.

        Raises `InputError` if a pair does not exist.
        """
        from hierogram.tools.scores.records import score_of

        chosen = _whole_numbers(ids)
        if chosen:
            self._chosen(chosen)
        while scores := self.store.scores_by_id(chosen) if chosen else self.store.scores(after):
            after = scores[-1].pair_id
            texts = {row.id: row for row in self.store.pairs_by_id([score.pair_id for score in scores])}
            for score in scores:
                if row := texts.get(score.pair_id):
                    yield ScoredPair(row.id, row.source, row.target, score_of(score))
            if chosen:
                return

    def _chosen(self, ids: Sequence[int]) -> Iterator[PairRow]:
        rows = self.store.pairs_by_id(ids)
        if missing := set(ids) - {row.id for row in rows}:
            raise InputError(f"{self.url}: there is no pair {min(missing)}")
        return iter(rows)

    def translate(self, text: str, best: int = 1, *, format: str | None = None) -> TextTranslation:
        """Return the translation of a text, `.text`, by what the store has learned by now: as `Decoder(store)` does it.

        The language model is built from the store's target side; a `Decoder` takes another one, and weights. Raises
        `NothingLearnedError`, `WrongKindError`, `UsageError`.
        """
        from hierogram.tools.translation.opening import Follower, equip
        from hierogram.tools.translation.options import TranslateOptions
        from hierogram.tools.translation.text_translator import TextTranslator

        text, alternatives = a_text("text", text), whole_number("best", best, 1) - 1
        with silence():
            if self._follower is None:
                self._follower = Follower(self.store, equip(TranslateOptions()))
            translator = TextTranslator(self._follower.refresh(), self.corrections.known)
        return translator.translate(text, format=format, alternatives=alternatives)

    def nearest(self, text: str, least: float = 50.0, most: int = 5) -> list[NearPair]:
        """Return at most so many stored pairs near to a text, the best first, as a translation memory finds them.

        `least` is the least quality: 100 less the edits of characters in percent of the longer text.
        """
        from hierogram.tools.integrations.translation_memory import nearest_pairs

        with self.reader.look() as look:
            return nearest_pairs(look, text, least, most)

    def memory(self, corpus: str | None = None, since: datetime | None = None) -> Iterator[str]:
        """Return pairs as the pieces of a TMX file: all, those of a corpus, or those that were added since a time."""
        from hierogram.tools.integrations.tmx_exchange import memory_file

        return memory_file(self.reader, corpus, since)

    def terms(
        self,
        *,
        departures: int = 0,
        options: TermOptions | None = None,
        progress: Callable[[str, int, int], None] | None = None,
        **chosen: Unpack[TermKeywords],
    ) -> TermReport:
        """Return terms, phrases that are translated alike, and up to `departures` pairs of each where they are not.

        Options are those of `TermOptions`. The store's pairs need links, not rules. Raises `UsageError`, `InputError`.
        """
        from hierogram.tools.terms.extraction import extract_terms
        from hierogram.tools.terms.options import TermOptions

        return extract_terms(self.store, options_of(TermOptions, options, chosen), departures, progress)

    def evidence(
        self, sentence: str, *, options: EvidenceOptions | None = None, **chosen: Unpack[EvidenceKeywords]
    ) -> Evidence:
        """Return what the store knows of a sentence: rules that match it, pairs that cover most of it, entries.

        Options are those of `EvidenceOptions`. Raises `InputError` where the sentence is empty or too long.
        """
        from hierogram.tools.evidence.gathering import gather
        from hierogram.tools.evidence.options import EvidenceOptions

        wanted = options_of(EvidenceOptions, options, chosen)
        with self.reader.look() as look:
            return gather(look, sentence, wanted)

    def diagnose(
        self, *, options: ChainOptions | None = None, progress: Steps | None = None, **chosen: Unpack[ChainKeywords]
    ) -> Diagnosis:
        """Run several chains over the store's pairs, in memory, and return how far they agree.

        Options are those of `ChainOptions`: `chains=4, sweeps=200`. Raises `InputError` where there are no pairs.
        """
        from hierogram.tools.diagnosis.chains import run_chains
        from hierogram.tools.diagnosis.diagnosis import diagnose
        from hierogram.tools.diagnosis.options import ChainOptions

        wanted = options_of(ChainOptions, options, chosen)
        return diagnose(run_chains(self.store, wanted, progress or (lambda *_: None)))

    def verify(self, progress: Steps | None = None) -> VerifyReport:
        """Count every rule again from the derivations, check all tables, and return what is wrong."""
        from hierogram.daemon.learning.verifying import verify

        return verify(self.store, progress)

    def repair(self, *, keep: bool = True, progress: Steps | None = None) -> RepairReport:
        """Make all counts those of the derivations, and return what changed; without `keep`, what would change.

        Raises `StoreHeldError` where another process writes the store's grammar.
        """
        from hierogram.daemon.learning.repairing import repair

        self._end_learning()
        return repair(self.store, progress, keep=keep)

    def back_up(self, path: PathLike, progress: Steps | None = None, *, force: bool = False) -> int:
        """Copy an SQLite store to a file, whole or not at all, while others write; return its bytes.

        A file that is there is replaced by `force`. Raises `StoreError`, and `UsageError` where the copy must not be
        written there, or the store is on Postgres: it says which commands of Postgres back that up.
        """
        file, here = Path(path), sqlite_file(self.store.engine.url)
        if here is None:
            back_up, bring_back = postgres_commands(self.url, str(file))
            raise UsageError(
                f"{self.url}: a store on Postgres is backed up by Postgres: run\n  {back_up}\n"
                f"and to go back to the backup\n  {bring_back}"
            )
        if problem := _problem_of(file, here, force):
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

        The pairs have these `ids`, or meet all other conditions. If another process writes the grammar, it is asked to
        remove them. Raises `UsageError` if neither ids nor conditions are given, and `InputError` if no pair is found.
        """
        from hierogram.daemon.learning.residents import in_transactions, withdraw_all

        ids = _whole_numbers(ids)
        if bool(ids) == (corpus is not None or origin is not None or bool(external_ids)):
            raise UsageError("say which pairs: by their numbers, or by corpus, origin and external_ids")
        self._end_learning()
        one = self.notation().one
        found = ids or self.store.choose_pairs(corpus=corpus, origin=origin, external_ids=external_ids)
        if not found:
            raise InputError(f"no stored {one} is like that: nothing was withdrawn")
        holder = self.writer()
        if holder:
            number = sum(len(self.store.request_withdrawals(some)) for some in in_transactions(found))
        else:
            from hierogram.daemon.learning.learner import holding_lease

            with holding_lease(self.store, "hierogram withdraw"):
                number = withdraw_all(self.store, found, progress)
        if not number:
            raise InputError(f"no stored {one} has that number: nothing was withdrawn")
        return Withdrawn(number, holder)

    def events(self, after: int | None = None, limit: int = 1_000, kinds: Collection[str] = ()) -> EventPage:
        """Return what has changed since a position, that of the last event known; None: the oldest that is kept."""
        return self.store.events(after, limit, kinds)


def _whole_numbers(ids: int | Iterable[int]) -> list[int]:
    """Return the numbers of pairs, one or several; raises `UsageError` for anything else."""
    try:
        return [index(one) for one in (ids if isinstance(ids, Iterable) else [ids])]
    except TypeError as error:
        raise UsageError(f"ids must be numbers of pairs, got {ids!r}") from error


def _problem_of(file: Path, store: Path, force: bool) -> str | None:
    """Return why the copy must not be written there."""
    if not file.parent.is_dir():
        return f"the folder {file.parent} does not exist: make it first"
    if file.is_dir():
        return "is a folder: name a file"
    if file.exists() and file.samefile(store):
        return "is the store itself: name another file"
    if file.exists() and not force:
        return "is there already: name another file, or say --force to replace it"
    return "is a store in use: name another file" if Path(f"{file}-wal").exists() else None
