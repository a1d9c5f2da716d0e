"""Export the grammar of a store to a file, to a stream, or as a new version into a folder."""

import hashlib
import json
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import BinaryIO, NamedTuple

from hierogram.daemon.exceptions import ExportError, NothingLearnedError, UsageError
from hierogram.daemon.exports import publication
from hierogram.daemon.exports.filters import SentenceIndex, apply_filters, read_sentence_index
from hierogram.daemon.exports.formats import (
    BY_NAME,
    FORMATS,
    NUMBER_MACRO,
    Feature,
    Format,
    default_format,
    find_format,
    format_from_name,
    table_columns,
)
from hierogram.daemon.exports.lexicon import load_lexical_weights, load_lexicon, load_word_pairs
from hierogram.daemon.exports.options import SMOOTHING, ExportOptions
from hierogram.daemon.exports.publication import MANIFEST, ExportedFile, FilterCount, Manifest, Versions
from hierogram.daemon.exports.scratch import SHAPE_COLUMNS, Scratch, load_rules, memory_for, open_scratch
from hierogram.daemon.files import Compression, create_compressed, is_special, split_output_suffix
from hierogram.daemon.progress import Phases
from hierogram.daemon.text.pipeline import make_pipeline
from hierogram.samplers.grammar.kinds import LINKS, TRANSLATION, GrammarKind, find_grammar_kind
from hierogram.samplers.grammar.numbers import ONE_USE, VARIANCE_PER_DRAW
from hierogram.samplers.kernel import Report
from hierogram.storage.browsing.reader import literal
from hierogram.storage.exceptions import StoreError
from hierogram.storage.exports.snapshot import Snapshot
from hierogram.storage.options import as_plain, from_plain
from hierogram.storage.records.grammar import CountKind
from hierogram.storage.records.pairs import UNALIGNED
from hierogram.storage.store import Store

GRAMMAR, GLUE = "grammar", "glue"
"""Default file names without suffixes."""
_ROWS_PER_GROUP = 122_880
"""Number of rows in a row group of a Parquet file."""


@dataclass(frozen=True, slots=True)
class ExportPlan:
    """Export options with all defaults resolved for one kind of grammar."""

    options: ExportOptions
    format: Format
    compression: Compression = Compression.NONE
    corpus: int | None = None
    """Id of the corpus whose pairs are counted, or None for all pairs."""
    units_per_use: int = 1
    """Units of the integer column `uses` per use."""
    seen: str | None = None
    """SQL expression for `seen`, the part of `uses` to which the discount applies (s in docs/model.md).
    None means the smaller of `uses` and one use."""
    nonempty_sides: bool = False
    """Omit rules with an empty side."""

    @property
    def features(self) -> list[Feature]:
        """Features to write, in the order of the format."""
        names = self.options.features
        return [BY_NAME[name] for name in self.format.features if names is None or name in names]

    @property
    def lexical(self) -> bool:
        """True if the features include lexical weights."""
        return any(feature.lexical for feature in self.features)

    @property
    def suffix(self) -> str:
        """Suffix of file names, such as `.cdec.gz`."""
        return self.format.suffix + self.compression.suffix


def score_rules(
    scratch: Scratch, snapshot: Snapshot, plan: ExportPlan, report: Phases = lambda *_: None
) -> tuple[list[FilterCount], int]:
    """Load, filter and score rules into the view `scored`. Returns the filter counts and the rule count."""
    options = plan.options
    test_set = _read_test_set(snapshot, options)
    pairs_by_state = snapshot.state().pairs()
    pairs = None if plan.corpus else sum(pairs_by_state.values()) - pairs_by_state[UNALIGNED]
    if plan.format.word_pairs:
        blocks = snapshot.pair_blocks(plan.corpus)
        load_word_pairs(scratch, blocks, plan.units_per_use, lambda done: report("count", done, pairs))
    else:
        count_kind = options.count_kind
        has_derivations = (
            LINKS in find_grammar_kind(snapshot.settings().grammar).capabilities
            and next(snapshot.iterate_derivations(1, plan.corpus), None) is not None
        )
        needs_links = not plan.format.fixed or options.hiero
        min_expected = options.min_expected if has_derivations and count_kind is CountKind.TRANSLATION else None
        if plan.corpus is None:
            rules = snapshot.count_rules(count_kind)
            load_rules(scratch, snapshot, count_kind, lambda done: report("read", done, rules))
        else:
            from hierogram.daemon.exports.loading import load_corpus_rules

            load_corpus_rules(scratch, snapshot, plan.corpus, count_kind, lambda done: report("count", done, None))
        if has_derivations and (needs_links or min_expected is not None):
            from hierogram.daemon.exports.loading import load_pair_uses

            load_pair_uses(
                scratch, snapshot, plan.corpus, count_kind, min_expected, needs_links,
                lambda done: report("align", done, pairs),
            )  # fmt: skip
    return _filter_and_score(scratch, snapshot, plan, test_set)


class ReadPosition(NamedTuple):
    """Position up to which a store was read. Pairs and rules with larger ids are new."""

    last_pair_id: int
    """Id of the newest pair with a derivation."""
    last_rule_id: int
    all_seen: float
    """Value of the column `all_seen` (see `hierogram.daemon.exports.formats`)."""


def score_new_rules(scratch: Scratch, snapshot: Snapshot, plan: ExportPlan, since: ReadPosition) -> bool:
    """Create the view `scored` of rules that new pairs use, and of all rules that share a side with them.

    Rules that do not pass the filters are omitted. The table `fresh` contains the new rules that new pairs use.
    Returns True, or False without creating a view if the store has no new pairs.
    """
    from hierogram.daemon.exports.loading import load_new_rules

    if not load_new_rules(scratch, snapshot, since.last_pair_id, since.last_rule_id, plan.options.count_kind):
        return False
    _filter_and_score(scratch, snapshot, plan, _read_test_set(snapshot, plan.options), since.all_seen)
    return True


def _read_test_set(snapshot: Snapshot, options: ExportOptions) -> SentenceIndex | None:
    if options.filter_for is None:
        return None
    return read_sentence_index(options.filter_for, make_pipeline(snapshot.settings()).source)


def _filter_and_score(
    scratch: Scratch, snapshot: Snapshot, plan: ExportPlan, test_set: SentenceIndex | None, min_all_seen: float = 0
) -> tuple[list[FilterCount], int]:
    filters = apply_filters(scratch, plan, test_set)
    remaining = filters[-1].after if filters else scratch.row("SELECT count(*) FROM rules")[0]
    if plan.lexical:
        load_lexicon(scratch, snapshot.pair_blocks(plan.corpus))
        load_lexical_weights(scratch)
    score(scratch, plan, min_all_seen)
    return filters, remaining


def score(scratch: Scratch, plan: ExportPlan, min_all_seen: float = 0) -> None:
    """Create the view `scored`: the rules that pass the filters, with counts, sums and features.

    `min_all_seen` is a lower bound of `all_seen`, needed if the view `rules` does not contain all rules.
    """
    scratch.run(NUMBER_MACRO)
    features, units = plan.features, plan.units_per_use
    seen = plan.seen or f"least(uses, {units})"
    for side in ("source", "target"):
        scratch.run(f"""
            CREATE TABLE {side}_sums AS
            SELECT {side}, CAST(sum(uses) AS BIGINT) AS {side}_sum, CAST(sum({seen}) AS BIGINT) AS {side}_seen_sum
              FROM rules GROUP BY {side}""")
    all_seen = max(min_all_seen, *scratch.row(f"SELECT CAST(coalesce(sum({seen}), 0) AS BIGINT) FROM rules"), 1)
    joined = "with_sums"
    scratch.stage("with_source", "SELECT * FROM kept JOIN source_sums USING (source)", "source_sums", "loaded")
    scratch.stage(joined, "SELECT * FROM with_source JOIN target_sums USING (target)", "target_sums", "with_source")
    if plan.lexical:
        joined = "with_weights"
        scratch.stage(joined, "SELECT * FROM with_sums LEFT JOIN lexical USING (id)", "lexical", "with_sums")
    values = "".join(f", {feature.value} AS {feature.name}" for feature in features if feature.value != feature.name)
    lex = "".join(f", coalesce({feature.name}, 1.0) AS {feature.name}" for feature in features if feature.lexical)
    scratch.run(f"""
        CREATE VIEW scored AS
        SELECT *{values} FROM (
            SELECT source, target, alignment, {", ".join(SHAPE_COLUMNS)}, CAST(uses AS DOUBLE) AS uses,
                   CAST(source_sum AS DOUBLE) AS source_uses, CAST(target_sum AS DOUBLE) AS target_uses,
                   CAST({seen} AS DOUBLE) AS seen, CAST(source_seen_sum AS DOUBLE) AS source_seen,
                   CAST(target_seen_sum AS DOUBLE) AS target_seen, CAST({all_seen!r} AS DOUBLE) AS all_seen,
                   CAST({plan.options.smoothing or 0.0!r} AS DOUBLE) AS smoothing,
                   CAST(uses AS DOUBLE) / {units} AS count, CAST(source_sum AS DOUBLE) / {units} AS source_count,
                   CAST(target_sum AS DOUBLE) / {units} AS target_count{lex}
              FROM {joined}
        )""")


def write_rules(
    scratch: Scratch, plan: ExportPlan, path: Path, glue: Path, progress: Report
) -> tuple[int, list[ExportedFile]]:
    """Write the view `scored` and additional files. Returns the number of rules and files, rules first."""
    format = plan.format
    if format.line is None:
        rules, file = _write_table(scratch, plan, path)
    else:
        rules, file = _write_rule_lines(scratch, plan, path, progress)
    files = [file]
    if format.glue:
        files.append(_write_lines(glue, format.glue, plan.compression))
    if format.configure is not None:
        stem = split_output_suffix(path.name)[0]
        for suffix, lines in format.configure(path.name, glue.name, plan.features).items():
            files.append(_write_lines(path.with_name(stem + suffix), lines))
    return rules, files


def _write_lines(path: Path, lines: Sequence[str], compression: Compression = Compression.NONE) -> ExportedFile:
    with create_compressed(path, compression) as file:
        file.write("".join(line + "\n" for line in lines).encode())
    return ExportedFile(path.name, file.bytes, file.sha256)


def _write_rule_lines(scratch: Scratch, plan: ExportPlan, path: Path, progress: Report) -> tuple[int, ExportedFile]:
    features, format = plan.features, plan.format
    assert format.line is not None
    line = f"{format.line(features)} AS line"
    if format.order == "line":
        query = f"SELECT line FROM (SELECT {line} FROM scored) ORDER BY line"
    else:
        # Sort the rows before formatting them, because formatted lines are longer and take more memory to sort.
        rows = format.rows or "scored"
        query = f"SELECT {line} FROM (SELECT * FROM {rows} ORDER BY {format.order})"
    rules = 0
    with create_compressed(path, plan.compression) as file:
        if format.header is not None:
            file.write((format.header(features) + "\n").encode())
        for piece in scratch.byte_blocks(query):
            rules += piece.count(b"\n")
            file.write(piece)
            progress(rules)
    return rules, ExportedFile(path.name, file.bytes, file.sha256)


def _write_table(scratch: Scratch, plan: ExportPlan, path: Path) -> tuple[int, ExportedFile]:
    query = f"SELECT {', '.join(table_columns(plan.features))} FROM scored ORDER BY {plan.format.order}"
    # Use one thread, because with several threads the row groups and their dictionaries differ from run to run.
    scratch.run("SET threads = 1")
    [rules] = scratch.row(
        f"COPY ({query}) TO {literal(str(path))} (FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE {_ROWS_PER_GROUP})"
    )
    with path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    return rules, ExportedFile(path.name, path.stat().st_size, digest)


def resolve_plan(options: ExportOptions, grammar_kind: GrammarKind, path: Path | None = None) -> ExportPlan:
    """Resolve the options of an export for a kind of grammar.

    The suffixes of the path determine the default format and compression. Without a suffix or with `.txt`, the default
    format depends on the kind of grammar, and the file is not compressed. Without a path, the default compression
    depends on the format. Raises `UsageError` for an invalid suffix or compression, and `ExportError` if the kind of
    grammar does not support the format or a feature, or the format does not allow the chosen features.
    """
    stem, suffix_compression = split_output_suffix("" if path is None else path.name)
    suffix_format = format_from_name(stem)
    format = find_format(options.format) if options.format else suffix_format or default_format(grammar_kind)
    if suffix_format not in (None, format):
        raise UsageError(
            f"{path}: the suffix means {suffix_format.name}, but --format is {format.name}: change one of them"
        )
    if not options.format and suffix_format is None and Path(stem).suffix not in ("", ".txt"):
        raise UsageError(
            f"{path}: unknown suffix {Path(stem).suffix}: expected "
            f"{', '.join(entry.suffix for entry in FORMATS.values())}, or choose the format with --format"
        )
    if not format.supports(grammar_kind):
        suited = ", ".join(candidate.name for candidate in FORMATS.values() if candidate.supports(grammar_kind))
        raise ExportError(grammar_kind.cannot(f"be exported as {format.name}: use {suited}"))
    try:
        format.check_features(options.features)
        features = format.grammar_features(grammar_kind, options.features)
    except ValueError as error:
        raise ExportError(str(error)) from error
    compression = _resolve_compression(options, format, path, suffix_compression)
    smoothing, has_links = options.smoothing, LINKS in grammar_kind.capabilities
    if smoothing is None:
        is_smoothed = has_links and not format.word_pairs and options.count_kind is CountKind.TRANSLATION
        smoothing = SMOOTHING if is_smoothed else 0.0
    resolved = replace(options, format=format.name, features=features, smoothing=smoothing)
    units = 1 if options.current_sample else ONE_USE
    # Omit an ITG's rules for words without a translation, because decoders cannot use a rule with an empty side.
    nonempty_sides = not has_links and format.needs == TRANSLATION
    return ExportPlan(resolved, format, compression, units_per_use=units, nonempty_sides=nonempty_sides)


def glue_name(name: str) -> str:
    """Return the file name of the glue rules, such as `grammar.moses.glue.gz` for `grammar.moses.gz`."""
    stem, _ = split_output_suffix(name)
    return f"{stem}.{GLUE}{name.removeprefix(stem)}"


def _resolve_compression(
    options: ExportOptions, format: Format, path: Path | None, suffix_compression: Compression | None
) -> Compression:
    requested = None if options.compression is Compression.AUTO else options.compression
    if requested is not None and suffix_compression not in (None, requested):
        raise UsageError(
            f"{path}: the suffix means {suffix_compression}, but --compression is {requested}: change one of them"
        )
    chosen = requested or suffix_compression or (format.compression if path is None else Compression.NONE)
    try:
        format.check_compression(chosen)
    except ValueError as error:
        raise UsageError(f"{path.name}: {error}" if path is not None else str(error)) from error
    return chosen


@dataclass(frozen=True, slots=True)
class Published:
    """Exported version, its manifest, and the deleted versions (in a dry run: the expired versions)."""

    folder: Path
    manifest: Manifest
    pruned: list[Path]
    unchanged: bool = False
    """True if the last version of the job is up to date, so that no new version was written."""


def export(
    store: Store, path: Path | None = None, options: ExportOptions | None = None, report: Phases | None = None
) -> Manifest:
    """Write the store's grammar to `path`.

    Also writes a manifest, and the glue rules and decoder configuration if the format has them, to the same folder. The
    default path is `grammar` in the current folder, with the suffixes of format and compression. The same grammar and
    options give the same rule file. Raises `ExportError`, `NothingLearnedError`, and the errors of `resolve_plan`.
    """
    plan = resolve_plan(options or ExportOptions(), find_grammar_kind(store.settings().grammar), path)
    path = Path(GRAMMAR + plan.suffix).absolute() if path is None else path.absolute()
    if not path.parent.is_dir():
        raise ExportError(f"{path}: the folder {path.parent} does not exist: create it first")
    if is_special(path):
        raise ExportError(f"{path} is a device or a pipe: expected a file, or - for standard output")
    with (
        _recorded(store, path.name, path, plan.format.name) as record,
        publication.working_folder(path.parent, path.name) as work,
    ):
        manifest = _write(store, work, plan, report, work / path.name, work / glue_name(path.name))
        (work / MANIFEST).write_text(manifest.text(), encoding="utf-8")
        publication.publish_files(
            [
                *((work / extra.name, path.with_name(extra.name)) for extra in manifest.extra_files),
                (work / path.name, path),
                (work / MANIFEST, publication.manifest_path(path)),
            ]
        )
        record(manifest, path, None)
    return manifest


def export_to(
    store: Store, stream: BinaryIO, options: ExportOptions | None = None, report: Phases | None = None
) -> Manifest:
    """Write only the rules to a stream, by default uncompressed. Returns the manifest."""
    name = Path("-")
    plan = resolve_plan(options or ExportOptions(), find_grammar_kind(store.settings().grammar), name)
    with (
        _recorded(store, str(name), name, plan.format.name) as record,
        tempfile.TemporaryDirectory(prefix="hierogram-") as folder,
    ):
        work = Path(folder)
        manifest = _write(store, work, plan, report, work / GRAMMAR, work / GLUE)
        with (work / GRAMMAR).open("rb") as file:
            shutil.copyfileobj(file, stream)
        stream.flush()
        record(manifest, name, None)
    return manifest


def publish(
    store: Store,
    versions: Versions,
    options: ExportOptions | None = None,
    *,
    job: str | None = None,
    report: Phases | None = None,
) -> Published:
    """Write the store's grammar as a new version into a folder, and point the link `latest` to it.

    A version is a folder with the grammar, `manifest.json`, and the glue rules and decoder configuration of the format,
    if it has them. A missing folder is created, and expired versions are deleted. A run of a `job` writes nothing if
    the new version would equal the last version of the job. Raises the errors of `export`. Earlier versions remain
    after an error.
    """
    options, grammar_kind = options or ExportOptions(), find_grammar_kind(store.settings().grammar)
    folder, name = versions.folder, versions.name
    if job is not None and (unchanged := _unchanged_version(store, versions, options, job)) is not None:
        now = datetime.now(UTC)
        store.record_unchanged(job, now.timestamp())
        # Skip the deletion if another process holds the lock, because that process deletes the expired versions itself.
        with suppress(ExportError), publication.lock_versions(folder, name):
            unchanged = replace(unchanged, pruned=publication.prune_versions(versions, now))
        return unchanged
    with _recorded(store, name, folder, options.format or default_format(grammar_kind).name, job) as record:
        plan = resolve_plan(options, grammar_kind)
        if not publication.is_object_storage(folder):
            folder.mkdir(parents=True, exist_ok=True)
        with publication.lock_versions(folder, name), publication.working_folder(folder, name) as work:
            now = datetime.now(UTC)
            final = folder / publication.version_name(folder, name, now)
            new = work / "version"
            new.mkdir()
            paths = new / (GRAMMAR + plan.suffix), new / (GLUE + plan.suffix)
            manifest = _write(store, work, plan, report, *paths)
            (new / MANIFEST).write_text(manifest.text(), encoding="utf-8")
            publication.publish_folder(new, final)
            expired = publication.prune_versions(versions, now)
        record(manifest, final / manifest.file, final.name)
    return Published(final, manifest, expired)


def dry_run_publish(
    store: Store, versions: Versions, options: ExportOptions, *, job: str, report: Phases | None = None
) -> Published:
    """Predict the result of `publish` for a job, without changing the folder or the store."""
    unchanged = _unchanged_version(store, versions, options, job)
    if unchanged is not None:
        return replace(unchanged, pruned=publication.find_expired(versions, datetime.now(UTC)))
    plan = resolve_plan(options, find_grammar_kind(store.settings().grammar))
    with tempfile.TemporaryDirectory(prefix="hierogram-") as folder:
        work = Path(folder)
        manifest = _write(store, work, plan, report, work / (GRAMMAR + plan.suffix), work / (GLUE + plan.suffix))
    now = datetime.now(UTC)
    final = versions.folder / publication.version_name(versions.folder, versions.name, now)
    return Published(final, manifest, publication.find_expired(versions, now, added=1))


def _unchanged_version(store: Store, versions: Versions, options: ExportOptions, job: str) -> Published | None:
    """Return the last version of a job if it is still `latest` and up to date, else None."""
    path_text, stored = store.last_version(job) or ("", None)
    if stored is None:
        return None
    plan = resolve_plan(options, find_grammar_kind(store.settings().grammar))
    expected = {
        "grammar_position": store.grammar_position(),
        "hierogram": version("hierogram"),
        "options": as_plain(plan.options, with_defaults=True),
        "format": plan.format.name,
        "compression": plan.compression.value,
        "filter_for_sha256": _test_set_digest(options),
    }
    manifest = json.loads(stored)
    if any(manifest.get(name) != value for name, value in expected.items()):
        return None
    path = publication.open_folder(path_text)
    is_intact = path.is_file() and path.stat().st_size == manifest["bytes"]
    is_in_folder = publication.canonical_folder(path.parent.parent) == publication.canonical_folder(versions.folder)
    if not (is_intact and is_in_folder and path.parent.name == publication.latest_version(versions.folder)):
        return None
    return Published(path.parent, from_plain(Manifest, manifest), [], unchanged=True)


def _test_set_digest(options: ExportOptions) -> str | None:
    if options.filter_for is None:
        return None
    try:
        with options.filter_for.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None


@contextmanager
def _recorded(
    store: Store, name: str, path: Path, format: str, job: str | None = None
) -> Iterator[Callable[[Manifest, Path, str | None], None]]:
    """Record the start of an export, and its failure if an exception is raised.

    Yields a callback that records success: `(manifest, path of the rules, version name or None)`. Exports of read-only
    stores are not recorded. Errors of the file system, object storage and DuckDB are raised as `ExportError`.
    """
    started = time.monotonic()
    export_id = None if store.read_only else store.record_export(name, str(path), format, job)

    def done(manifest: Manifest, file: Path, version: str | None) -> None:
        if export_id is not None:
            store.finish_export(
                export_id, path=str(file), rules=manifest.rules, bytes=manifest.bytes, sha256=manifest.sha256,
                position=manifest.position, last_event_id=manifest.last_event_id, manifest=manifest.text(),
                seconds=time.monotonic() - started, version=version,
            )  # fmt: skip

    try:
        yield done
    except BaseException as error:
        if export_id is not None:
            with suppress(StoreError):
                reason = str(error) or type(error).__name__
                store.finish_export(export_id, error=reason, seconds=time.monotonic() - started)
        if isinstance(error, OSError):
            raise ExportError(f"{path}: cannot be written: {error.strerror or error}") from error
        package = type(error).__module__.split(".")[0]
        is_storage_error = (
            publication.is_object_storage(path) and isinstance(error, Exception) and package != "hierogram"
        )
        if is_storage_error or package in ("duckdb", "_duckdb"):
            raise ExportError(f"{path}: cannot be written: {' '.join(str(error).split())}") from error
        raise


def _write(store: Store, work: Path, plan: ExportPlan, report: Phases | None, path: Path, glue: Path) -> Manifest:
    """Write the rules to `path`, and glue rules to `glue`. Returns the manifest."""
    report, options = report or (lambda *_: None), plan.options
    test_set_digest = _test_set_digest(options)
    with store.snapshot() as snapshot:
        settings = snapshot.settings()
        if options.corpus is not None:
            corpora = snapshot.corpus_ids()
            if options.corpus not in corpora:
                names = ", ".join(sorted(corpora)) or "none"
                raise ExportError(f"corpus {options.corpus!r} not found; the store has: {names}")
            plan = replace(plan, corpus=corpora[options.corpus])
        state = snapshot.state()
        if not state.rules_in_use:
            raise NothingLearnedError(store.url)
        with open_scratch(work, memory_for(state.rules_in_use)) as database:
            filters, remaining = score_rules(database, snapshot, plan, report)
            number, files = write_rules(database, plan, path, glue, lambda done: report("write", done, remaining))
        rules, *extra_files = files
        return Manifest(
            manifest_version=publication.MANIFEST_VERSION,
            hierogram=version("hierogram"),
            store=store.url,
            position=state.position,
            model=settings.model,
            seed=settings.seed,
            settings=asdict(settings),
            options=as_plain(options, with_defaults=True),
            format=plan.format.name,
            compression=plan.compression.value,
            features=[feature.name for feature in plan.features],
            filters=filters,
            rules=number,
            file=rules.name,
            bytes=rules.bytes,
            sha256=rules.sha256,
            created_at=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            extra_files=extra_files,
            variance_per_use=float(VARIANCE_PER_DRAW) if options.current_sample else snapshot.variance_per_use(),
            grammar_position=state.grammar_position,
            last_event_id=snapshot.last_event_id(),
            filter_for_sha256=test_set_digest,
        )
