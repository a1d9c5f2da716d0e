"""Links and counts of the aligner, and links that users fix or forbid."""

from collections.abc import Collection, Iterator, Sequence

from sqlalchemy import Connection, Select, Table, func, insert, literal, select, text, update

from hierogram.samplers.grammar.known_links import KnownLinks, Link
from hierogram.storage.database.connection import SQLITE
from hierogram.storage.database.leases import Leases
from hierogram.storage.database.transactions import (
    Row,
    WriteTransaction,
    array_parameter,
    in_array,
    read_rows,
    rows_with,
    staged_alignments,
    staged_jumps,
    staged_lexicon,
    staged_links,
    staged_word_counts,
    upsert,
)
from hierogram.storage.exceptions import HumanLinksError, StoreError
from hierogram.storage.grammar.rules import count_restarts
from hierogram.storage.pairs.ingest import correction_row, human_link_rows, text_digest
from hierogram.storage.pairs.pairs import is_undamaged
from hierogram.storage.records.aligner import (
    AlignerChange,
    AlignerCounts,
    FertilityCounts,
    LinkCorrection,
    LinkRow,
    PairSize,
    TextAlignerCounts,
)
from hierogram.storage.records.columns import PairUpdates, RuleDeltas
from hierogram.storage.records.pairs import ALIGNER, GIVEN, SAMPLING, UNALIGNED, WAITING
from hierogram.storage.schema.tables import (
    aligner_jumps,
    aligner_lexicon,
    aligner_words,
    human_links,
    link_corrections,
    pair_links,
    sentence_pairs,
)

_CELLS = sentence_pairs.c.source_length * sentence_pairs.c.target_length

SideNames = tuple[Collection[str], Collection[str]]
"""Source words and target words: lowercased, stems with a trailing space, the null word empty."""

Texts = tuple[str, str]

_CORRECTIONS = select(*(link_corrections.c[name] for name in ("pair_id", "version", "input_alignment")))
_IS_PENDING = link_corrections.c.applied_version < link_corrections.c.version


class Alignments(Leases):
    """Alignments and links of pairs, links that users fix or forbid, and the aligner's counts."""

    def commit_alignments(
        self, change: AlignerChange, updates: PairUpdates | None = None, deltas: RuleDeltas | None = None
    ) -> None:
        """Commit a change of alignments, and new derivations with their rule deltas, atomically.

        The schedules of pairs with new derivations restart. Raises the errors of `commit`, and `StoreError` if another
        process has aligned a pair.
        """
        from hierogram.storage.grammar.changes import save_derivations

        with self._committing(durable=False) as transaction:
            change_alignments(transaction, change)
            save_derivations(transaction, updates, deltas)
            if updates is not None:
                transaction.stage_ids(updates.ids.tolist())
                count_restarts(transaction)

    def aligner_counts(self, *names: SideNames) -> AlignerCounts:
        """Return the counts within each set of names (rows may repeat), and the counts of all jumps."""
        with self._reading() as connection:
            return aligner_counts(connection, names)

    def text_aligner_counts(
        self, names: Sequence[SideNames], texts: Sequence[tuple[str, str]], before: TextAlignerCounts | None = None
    ) -> TextAlignerCounts:
        """Return counts and human links for texts. Reuses the jumps of `before` if the store is unchanged."""
        with self._reading() as connection:
            [(position, source_types, target_types, has_human_links)] = read_rows(connection, _SELECT_STATE)
            jumps = before.counts.jumps if before is not None and before.position == position else None
            counts = aligner_counts(connection, names, jumps)
            human_links = _known_links_of_texts(connection, texts) if has_human_links else {}
            return TextAlignerCounts(position, counts, (source_types, target_types), human_links)

    def count_pairs_at_sweep(self, sweep: int) -> int:
        """Return the number of pairs that the aligner has sampled exactly `sweep` times."""
        with self._reading() as connection:
            statement = select(func.count()).select_from(pair_links).where(pair_links.c.sweep == sweep)
            return connection.scalar(statement) or 0

    def unaligned_pairs(self, limit: int) -> list[PairSize]:
        """Return up to `limit` undamaged pairs without an alignment, ordered by id."""
        with self._reading() as connection:
            pair = sentence_pairs.c
            unaligned = select(pair.id, _CELLS, literal(0)).where(pair.state == UNALIGNED, is_undamaged(pair.id))
            return [PairSize._make(row) for row in connection.execute(unaligned.order_by(pair.id).limit(limit))]

    def stalest_alignments(self, limit: int) -> list[PairSize]:
        """Return undamaged pairs that the aligner has aligned, not in burn-in, least often sampled first."""
        with self._reading() as connection:
            pair, links = sentence_pairs.c, pair_links.c
            joined = select(pair.id, _CELLS, links.sweep).join_from(
                pair_links, sentence_pairs, pair.id == links.pair_id
            )
            # Alignments from the input have sweep 0.
            aligned = joined.where(links.sweep > 0, pair.state != SAMPLING, is_undamaged(pair.id))
            rows = connection.execute(aligned.order_by(links.sweep, links.pair_id).limit(limit))
            return [PairSize._make(row) for row in rows]

    def links_by_id(self, ids: Collection[int]) -> list[LinkRow]:
        """Return the aligner's links of these pairs, ordered by id. Pairs without links are omitted."""
        linked = link_rows().join_from(pair_links, sentence_pairs, sentence_pairs.c.id == pair_links.c.pair_id)
        with self._reading() as connection:
            return [LinkRow._make(row) for row in rows_with(connection, linked, pair_links.c.pair_id, ids)]

    def uncounted_alignments(self, after_id: int, limit: int) -> list[LinkRow]:
        """Return undamaged pairs with id > `after_id` and an uncounted input alignment, ordered by id."""
        with self._reading() as connection:
            pair, links = sentence_pairs.c, pair_links.c
            untrained = (
                link_rows()
                .outerjoin_from(sentence_pairs, pair_links, links.pair_id == pair.id)
                .where(pair.id > after_id, pair.aligned_by == GIVEN, links.pair_id.is_(None), is_undamaged(pair.id))
            )
            return [LinkRow._make(row) for row in connection.execute(untrained.order_by(pair.id).limit(limit))]

    def set_human_links(self, pair_id: int, links: KnownLinks, origin: str) -> bool:
        """Replace the human links of a pair. Returns False if it is not stored. Raises `HumanLinksError`."""
        with self._writing() as transaction:
            connection = transaction.connection
            pair = connection.execute(select(sentence_pairs).where(sentence_pairs.c.id == pair_id)).one_or_none()
            if pair is None:
                return False
            problem = links.problem(pair.source_length, pair.target_length)
            if problem:
                raise HumanLinksError(f"pair {pair_id}: {problem}: words are counted from 0")
            transaction.execute("DELETE FROM human_links WHERE pair_id = :pair", pair=pair_id)
            rows = human_link_rows(pair_id, links, origin)
            if rows:
                connection.execute(insert(human_links), rows)
            changed = transaction.execute(
                "UPDATE link_corrections SET version = version + 1 WHERE pair_id = :pair", pair=pair_id
            )
            if rows and not changed.rowcount:
                input_alignment = pair.alignment if pair.aligned_by == GIVEN else None
                row = correction_row(pair_id, pair.source, pair.target, input_alignment)
                connection.execute(insert(link_corrections).values(row))
            return True

    def human_links(self, ids: Collection[int]) -> dict[int, KnownLinks]:
        """Return the human links of the given pairs by id. Pairs without human links are omitted."""
        with self._reading() as connection:
            return _known_links(connection, ids)

    def pending_corrections(self, limit: int) -> list[LinkCorrection]:
        """Return up to `limit` undamaged, aligned pairs whose alignment does not follow their human links."""
        with self._reading() as connection:
            aligned = _CORRECTIONS.join(sentence_pairs, sentence_pairs.c.id == link_corrections.c.pair_id).where(
                _IS_PENDING, sentence_pairs.c.state != UNALIGNED, is_undamaged(sentence_pairs.c.id)
            )
            rows = connection.execute(aligned.order_by(link_corrections.c.pair_id).limit(limit))
            return [LinkCorrection._make(row) for row in rows]

    def corrections_by_pair(self, ids: Collection[int]) -> list[LinkCorrection]:
        """Return the corrections of pairs, ordered by id, also if an alignment follows deleted human links."""
        with self._reading() as connection:
            rows = rows_with(connection, _CORRECTIONS, link_corrections.c.pair_id, ids)
            return [LinkCorrection._make(row) for row in rows]

    def is_corrected(self, pair_id: int) -> bool:
        """Check if the pair's alignment follows its human links. True if the pair has none or is not stored."""
        pending = select(link_corrections.c.pair_id).where(link_corrections.c.pair_id == pair_id, _IS_PENDING)
        with self._reading() as connection:
            return connection.scalar(pending) is None


def change_alignments(transaction: WriteTransaction, change: AlignerChange) -> None:
    """Store a change of alignments and counts. Raises `StoreError` if a pair has changed."""
    _set_alignments(transaction, change)
    _set_links(transaction, change)
    if change.corrected_inputs:
        lines = [{"pair": row.id, "line": row.alignment} for row in change.corrected_inputs]
        transaction.connection.execute(text("UPDATE sentence_pairs SET alignment = :line WHERE id = :pair"), lines)
    _finish_corrections(transaction, change.applied_corrections)
    add_aligner_counts(transaction, change)


def add_aligner_counts(transaction: WriteTransaction, change: AlignerCounts) -> None:
    """Add to the aligner's counts, and delete rows with count 0. Negative counts raise `StoreError`."""
    changed: list[tuple[Table, Table, Sequence[Row]]] = [
        (aligner_lexicon, staged_lexicon, change.lexicon),
        (aligner_words, staged_word_counts, change.words),
        (aligner_jumps, staged_jumps, change.jumps),
    ]
    for table, staged, rows in changed:
        if not rows:
            continue
        keys = [column.name for column in table.columns if column.primary_key]
        counts = [column.name for column in table.columns if not column.primary_key]
        transaction.loader.stage(staged, rows)
        key_list = ", ".join(keys)
        added = {count: f"{table.name}.{count} + excluded.{count}" for count in counts}
        transaction.execute(upsert(table, f"SELECT * FROM {staged.name} WHERE true ORDER BY {key_list}", added))
        is_same = " AND ".join(f"t.{key} = s.{key}" for key in keys)
        negative = " OR ".join(f"t.{count} < 0" for count in counts)
        wrong = transaction.execute(
            f"SELECT t.* FROM {staged.name} AS s CROSS JOIN {table.name} AS t WHERE {is_same} AND ({negative}) LIMIT 1"
        ).one_or_none()
        if wrong is not None:
            raise StoreError(
                f"the row {tuple(wrong)} of {table.name} would have a negative count, which does not match the links: "
                "run `hierogram verify`"
            )
        empty = " AND ".join(f"{count} = 0" for count in counts)
        transaction.execute(
            f"DELETE FROM {table.name} WHERE ({key_list}) IN (SELECT {key_list} FROM {staged.name}) AND {empty}"
        )


def _set_alignments(transaction: WriteTransaction, change: AlignerChange) -> None:
    if not change.alignments:
        return
    transaction.loader.stage(staged_alignments, change.alignments)
    by_state = transaction.execute(
        "SELECT state, count(*) FROM staged_alignments JOIN sentence_pairs ON id = pair_id GROUP BY state"
    )
    states = dict(by_state.all())
    if sum(states.values()) != len(change.alignments):
        raise StoreError("a pair was withdrawn while it was aligned: run the alignment again")
    newly_aligned = states.get(UNALIGNED, 0)
    transaction.state.add(UNALIGNED, -newly_aligned)
    transaction.state.add(WAITING, newly_aligned)
    is_staged = sentence_pairs.c.id == staged_alignments.c.pair_id
    values = {name: staged_alignments.c[name] for name in ("alignment", "link_probabilities")}
    transaction.connection.execute(update(sentence_pairs).values(**values, aligned_by=ALIGNER).where(is_staged))
    if newly_aligned:
        transaction.connection.execute(
            update(sentence_pairs).values(state=WAITING).where(is_staged, sentence_pairs.c.state == UNALIGNED)
        )


def _set_links(transaction: WriteTransaction, change: AlignerChange) -> None:
    if change.links:
        transaction.loader.stage(staged_links, change.links)
        found = transaction.execute("SELECT count(*) FROM staged_links JOIN sentence_pairs ON id = pair_id").scalar()
        if found != len(change.links):
            raise StoreError("a pair was withdrawn while it was aligned: run the alignment again")
        changed_pair = transaction.execute(
            "SELECT s.pair_id FROM staged_links AS s LEFT JOIN pair_links ON pair_links.pair_id = s.pair_id"
            " WHERE coalesce(s.expected_sweep, -1) <> coalesce(pair_links.sweep, -1) LIMIT 1"
        ).scalar()
        if changed_pair is not None:
            raise StoreError(
                f"pair {changed_pair} was aligned by another process at the same time: stop one process and restart "
                "the other"
            )
        links = "SELECT pair_id, forward, backward, sweep FROM staged_links WHERE true ORDER BY pair_id"
        transaction.execute(upsert(pair_links, links))
    if change.withdrawn:
        transaction.stage_ids(change.withdrawn)
        transaction.delete_staged("pair_links")


_ROWS_PER_PART = 50_000
_MAX_LOOKUPS = 4_000
"""Number of word pairs above which SQLite reads all rows of each source word, not single rows."""
_SELECT_LEXICON = "SELECT source, target, forward, backward FROM aligner_lexicon"
_SELECT_WORDS = f"SELECT side, word, {', '.join(FertilityCounts._fields[2:])} FROM aligner_words"

_SELECT_STATE = (
    "SELECT position, source_types, target_types, EXISTS (SELECT 1 FROM human_links WHERE pair_id > 0) FROM store_state"
)
_SELECT_JUMPS = "SELECT direction, width, count FROM aligner_jumps"


def iterate_aligner_counts(connection: Connection) -> Iterator[AlignerCounts]:
    """Yield all counts of the aligner in parts of up to `_ROWS_PER_PART` rows of one table."""
    yield AlignerCounts(jumps=read_rows(connection, _SELECT_JUMPS))
    options = {"yield_per": _ROWS_PER_PART}
    for rows in connection.execute(text(_SELECT_LEXICON), execution_options=options).partitions():
        yield AlignerCounts(lexicon=[(*row,) for row in rows])
    for rows in connection.execute(text(_SELECT_WORDS), execution_options=options).partitions():
        yield AlignerCounts(words=[FertilityCounts._make(row) for row in rows])


def aligner_counts(
    connection: Connection, names: Sequence[SideNames], jumps: list[tuple[str, int, int]] | None = None
) -> AlignerCounts:
    """Return the counts within each set of names, and the counts of jumps, which are read unless given."""
    counts = AlignerCounts(jumps=read_rows(connection, _SELECT_JUMPS) if jumps is None else jumps)
    if names:
        few = sum(len(sources) * len(targets) for sources, targets in names) <= _MAX_LOOKUPS
        # Unary + keeps SQLite from probing the index once for each combination of source and target word.
        target = "target" if few or connection.dialect.name != SQLITE else "+target"
        parameters: dict[str, object] = {}
        pairs, words = [], []
        for number, (sources, targets) in enumerate(names):
            parameters[f"sources_{number}"] = array_parameter(connection, sources)
            parameters[f"targets_{number}"] = array_parameter(connection, targets)
            of_source, of_target = in_array(connection, f"sources_{number}"), in_array(connection, f"targets_{number}")
            pairs.append(f"{_SELECT_LEXICON} WHERE source {of_source} AND {target} {of_target}")
            words.append(f"{_SELECT_WORDS} WHERE side = 'source' AND word {of_source}")
            words.append(f"{_SELECT_WORDS} WHERE side = 'target' AND word {of_target}")
        counts.lexicon.extend(read_rows(connection, " UNION ALL ".join(pairs), parameters))
        counts.words.extend(map(FertilityCounts._make, read_rows(connection, " UNION ALL ".join(words), parameters)))
    return counts


def link_rows() -> Select[tuple[object, ...]]:
    """Return a SELECT of `LinkRow`. The caller joins `sentence_pairs` and `pair_links`."""
    pair, links = sentence_pairs.c, pair_links.c
    return select(
        pair.id, pair.source, pair.target, pair.alignment, pair.state, pair.aligned_by, links.forward, links.backward,
        links.sweep,
    )  # fmt: skip


def _known_links(connection: Connection, ids: Collection[int]) -> dict[int, KnownLinks]:
    links: dict[int, dict[bool, list[Link]]] = {}
    for row in rows_with(connection, select(human_links), human_links.c.pair_id, ids):
        links.setdefault(row.pair_id, {True: [], False: []})[row.fixed].append((row.source, row.target))
    return {pair_id: KnownLinks(frozenset(found[True]), frozenset(found[False])) for pair_id, found in links.items()}


def _known_links_of_texts(connection: Connection, texts: Sequence[Texts]) -> dict[Texts, KnownLinks]:
    """Return human links by text. If pairs have equal texts, the first pair with human links is used."""
    digests = {text_digest(*pair): pair for pair in texts}
    columns = link_corrections.c.pair_id, link_corrections.c.text_digest
    found = rows_with(connection, select(*columns), link_corrections.c.text_digest, digests)
    pairs = sorted(((pair_id, bytes(digest)) for pair_id, digest in found), reverse=True)
    links_by_pair = _known_links(connection, [pair_id for pair_id, _ in pairs])
    return {digests[digest]: links_by_pair[pair_id] for pair_id, digest in pairs if pair_id in links_by_pair}


def _finish_corrections(transaction: WriteTransaction, corrected: Sequence[tuple[int, int]]) -> None:
    """Record the version of human links that alignments follow, and delete rows without human links."""
    for pair_id, version in corrected:
        transaction.execute(
            "UPDATE link_corrections SET applied_version = :version WHERE pair_id = :pair",
            version=version,
            pair=pair_id,
        )
        transaction.execute(
            "DELETE FROM link_corrections WHERE pair_id = :pair AND applied_version = version"
            " AND NOT EXISTS (SELECT 1 FROM human_links WHERE pair_id = :pair)",
            pair=pair_id,
        )
