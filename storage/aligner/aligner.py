"""Links and counts of the aligner."""

import json
from collections.abc import Collection, Iterator, Sequence
from functools import lru_cache

from sqlalchemy import Connection, Select, Table, TextClause, func, literal, select, text, update

from hierogram.storage.aligner.human_links import finish_corrections, known_links_of_texts
from hierogram.storage.database.connection import SQLITE
from hierogram.storage.database.leases import Leases
from hierogram.storage.database.transactions import (
    Row,
    WriteTransaction,
    delete_staged,
    read_rows,
    stage_ids,
    staged_alignments,
    staged_jumps,
    staged_lexicon,
    staged_links,
    staged_word_counts,
)
from hierogram.storage.exceptions import CountError, PairChangedError, PairMissingError
from hierogram.storage.grammar.rules import count_restarts
from hierogram.storage.pairs.pairs import IDS_PER_QUERY, is_sound
from hierogram.storage.records.aligner import (
    AlignerChange,
    AlignerCounts,
    LinkRow,
    PairSize,
    TextAlignerCounts,
    WordCounts,
)
from hierogram.storage.records.columns import PairUpdates, RuleDeltas
from hierogram.storage.records.pairs import ALIGNER, GIVEN, SAMPLING, UNALIGNED, WAITING
from hierogram.storage.schema.tables import FERTILITIES, pair_links, sentence_pairs

_FERTILITIES = tuple(f"fertility_{number}" for number in range(FERTILITIES))
_LEXICON = ("aligner_lexicon", ("source", "target"), ("forward", "backward"))
_WORDS = ("aligner_words", ("side", "word"), ("links", *_FERTILITIES))
_JUMPS = ("aligner_jumps", ("direction", "width"), ("count",))
_CELLS = sentence_pairs.c.source_length * sentence_pairs.c.target_length

SideNames = tuple[Collection[str], Collection[str]]
"""Names of source and target words, or of stems; the empty word has a name as well."""

JumpRows = list[tuple[str, int, int]]
"""Direction, width and count."""


class Alignments(Leases):
    """Alignments and links of pairs, and the aligner's counts."""

    def align(
        self, change: AlignerChange, updates: PairUpdates | None = None, deltas: RuleDeltas | None = None
    ) -> None:
        """Store alignments, links, changes of the counts, and new derivations with their rule deltas, atomically.

        Pairs with new derivations restart their schedule with other random streams. Raises the errors of `commit`, and
        `PairChangedError` if another process has aligned a pair.
        """
        from hierogram.storage.grammar.commits import save_derivations

        with self._committing(durable=False) as transaction:
            change_alignments(transaction, change)
            save_derivations(transaction, updates, deltas)
            if updates is not None:
                stage_ids(transaction, updates.ids.tolist())
                count_restarts(transaction)

    def aligner_counts(self, *names: SideNames) -> AlignerCounts:
        """Return the counts of these names, for each set of names separately, and of all jumps."""
        with self._reading() as connection:
            return aligner_counts(connection, names)

    def text_aligner_counts(
        self,
        names: Sequence[SideNames],
        texts: Sequence[tuple[str, str]],
        before: TextAlignerCounts | None = None,
    ) -> TextAlignerCounts:
        """Return the counts for aligning these texts, and human links of stored pairs with the same texts.

        All are read from one state of the store. `before` is the previous result: its jumps are reused if the store is
        unchanged.
        """
        with self._reading() as connection:
            [(position, *vocabulary, someone_says)] = read_rows(connection, _OF_STATE)
            jumps = before.counts.jumps if before is not None and before.position == position else None
            return TextAlignerCounts(
                position,
                aligner_counts(connection, names, jumps),
                (vocabulary[0], vocabulary[1]),
                known_links_of_texts(connection, texts) if someone_says else {},
            )

    def count_links(self, sweep: int) -> int:
        """Return the number of pairs that the aligner has sampled `sweep` times."""
        with self._reading() as connection:
            statement = select(func.count()).select_from(pair_links).where(pair_links.c.sweep == sweep)
            return int(connection.scalar(statement) or 0)

    def unaligned_pairs(self, limit: int) -> list[PairSize]:
        """Return pairs without an alignment, ordered by id, except pairs that are set aside."""
        with self._reading() as connection:
            statement = (
                select(sentence_pairs.c.id, _CELLS, literal(0))
                .where(sentence_pairs.c.state == UNALIGNED, is_sound(sentence_pairs.c.id))
                .order_by(sentence_pairs.c.id)
                .limit(limit)
            )
            return [PairSize._make(row) for row in connection.execute(statement)]

    def stalest_links(self, limit: int) -> list[PairSize]:
        """Return the pairs that the aligner has sampled least often, without pairs being sampled or set aside."""
        with self._reading() as connection:
            statement = (
                select(sentence_pairs.c.id, _CELLS, pair_links.c.sweep)
                .join_from(pair_links, sentence_pairs, sentence_pairs.c.id == pair_links.c.pair_id)
                # Pairs with a given alignment have sweep 0.
                .where(pair_links.c.sweep > 0, sentence_pairs.c.state != SAMPLING, is_sound(sentence_pairs.c.id))
                .order_by(pair_links.c.sweep, pair_links.c.pair_id)
                .limit(limit)
            )
            return [PairSize._make(row) for row in connection.execute(statement)]

    def links_by_id(self, ids: Collection[int]) -> list[LinkRow]:
        """Return the aligner's links of these pairs, ordered by id."""
        pending_ids, rows = sorted(ids), list[LinkRow]()
        with self._reading() as connection:
            for start in range(0, len(pending_ids), IDS_PER_QUERY):
                statement = (
                    link_rows()
                    .join_from(pair_links, sentence_pairs, sentence_pairs.c.id == pair_links.c.pair_id)
                    .where(pair_links.c.pair_id.in_(pending_ids[start : start + IDS_PER_QUERY]))
                    .order_by(pair_links.c.pair_id)
                )
                rows += [LinkRow._make(row) for row in connection.execute(statement)]
        return rows

    def untrained_pairs(self, after_id: int, limit: int) -> list[LinkRow]:
        """Return sound pairs above an id with a given alignment that are not in the counts, ordered by id."""
        with self._reading() as connection:
            statement = (
                link_rows()
                .outerjoin_from(sentence_pairs, pair_links, pair_links.c.pair_id == sentence_pairs.c.id)
                .where(
                    sentence_pairs.c.id > after_id,
                    sentence_pairs.c.aligned_by == GIVEN,
                    pair_links.c.pair_id.is_(None),
                    is_sound(sentence_pairs.c.id),
                )
                .order_by(sentence_pairs.c.id)
                .limit(limit)
            )
            return [LinkRow._make(row) for row in connection.execute(statement)]


def change_alignments(transaction: WriteTransaction, change: AlignerChange) -> None:
    """Store alignments, links and the changes of the counts.

    Raises `PairMissingError`, `PairChangedError` if the aligner has sampled a pair since it was read, and `CountError`
    for a negative count.
    """
    _set_alignments(transaction, change)
    _set_links(transaction, change)
    if change.corrected_inputs:
        lines = [{"pair": row.id, "line": row.alignment} for row in change.corrected_inputs]
        transaction.connection.execute(text("UPDATE sentence_pairs SET alignment = :line WHERE id = :pair"), lines)
    finish_corrections(transaction, change.corrected)
    add_aligner_counts(transaction, change)


def add_aligner_counts(transaction: WriteTransaction, change: AlignerChange) -> None:
    """Add to the aligner's counts. Raises `CountError` for a negative count."""
    for (table, keys, counts), staged, rows in (
        (_LEXICON, staged_lexicon, change.lexicon),
        (_WORDS, staged_word_counts, change.words),
        (_JUMPS, staged_jumps, change.jumps),
    ):
        _add(transaction, table, keys, counts, staged, rows)


def _set_alignments(transaction: WriteTransaction, change: AlignerChange) -> None:
    if not change.alignments:
        return
    connection, totals = transaction.connection, transaction.state
    transaction.loader.stage(staged_alignments, change.alignments)
    staged_pairs = staged_alignments.join(sentence_pairs, sentence_pairs.c.id == staged_alignments.c.pair_id)
    by_state = select(sentence_pairs.c.state, func.count()).select_from(staged_pairs).group_by(sentence_pairs.c.state)
    states: dict[str, int] = {row[0]: row[1] for row in connection.execute(by_state)}
    if sum(states.values()) != len(change.alignments):
        raise PairMissingError("a pair was withdrawn while it was aligned: run the alignment again")
    fresh = states.get(UNALIGNED, 0)
    totals.count_pairs(UNALIGNED, -fresh)
    totals.count_pairs(WAITING, fresh)
    is_staged = sentence_pairs.c.id == staged_alignments.c.pair_id
    connection.execute(
        update(sentence_pairs)
        .values(
            alignment=staged_alignments.c.alignment,
            link_probabilities=staged_alignments.c.link_probabilities,
            aligned_by=ALIGNER,
        )
        .where(is_staged)
    )
    if fresh:
        connection.execute(
            update(sentence_pairs).values(state=WAITING).where(is_staged, sentence_pairs.c.state == UNALIGNED)
        )


def _set_links(transaction: WriteTransaction, change: AlignerChange) -> None:
    connection = transaction.connection
    if change.links:
        transaction.loader.stage(staged_links, change.links)
        _check_not_resampled(connection, len(change.links))
        connection.execute(
            text(
                "INSERT INTO pair_links (pair_id, forward, backward, sweep)"
                " SELECT pair_id, forward, backward, sweep FROM staged_links WHERE true ORDER BY pair_id"
                " ON CONFLICT (pair_id) DO UPDATE"
                " SET forward = excluded.forward, backward = excluded.backward, sweep = excluded.sweep"
            )
        )
    if change.withdrawn:
        stage_ids(transaction, change.withdrawn)
        delete_staged(transaction, "pair_links")


def _check_not_resampled(connection: Connection, expected: int) -> None:
    staged = staged_links.c
    joined = staged_links.join(sentence_pairs, sentence_pairs.c.id == staged.pair_id)
    if connection.scalar(select(func.count()).select_from(joined)) != expected:
        raise PairMissingError("a pair was withdrawn while it was aligned: run the alignment again")
    moved = connection.scalar(
        select(staged.pair_id)
        .select_from(staged_links.outerjoin(pair_links, pair_links.c.pair_id == staged.pair_id))
        .where(func.coalesce(staged.since, -1) != func.coalesce(pair_links.c.sweep, -1))
        .limit(1)
    )
    if moved is not None:
        raise PairChangedError(
            f"pair {moved} was aligned by another process at the same time: stop one process and restart the other"
        )


def _add(
    transaction: WriteTransaction,
    table: str,
    keys: Sequence[str],
    counts: Sequence[str],
    staged: Table,
    rows: Sequence[Row],
) -> None:
    """Add to a table of counts and delete rows whose counts are all 0."""
    if not rows:
        return
    transaction.loader.stage(staged, rows)
    names = ", ".join((*keys, *counts))
    added = ", ".join(f"{count} = {table}.{count} + excluded.{count}" for count in counts)
    transaction.connection.execute(
        text(
            f"INSERT INTO {table} ({names}) SELECT {names} FROM {staged.name} WHERE true ORDER BY {', '.join(keys)}"
            f" ON CONFLICT ({', '.join(keys)}) DO UPDATE SET {added}"
        )
    )
    is_same = " AND ".join(f"t.{key} = s.{key}" for key in keys)
    negative = " OR ".join(f"t.{count} < 0" for count in counts)
    wrong = transaction.connection.execute(
        text(f"SELECT t.* FROM {staged.name} AS s CROSS JOIN {table} AS t WHERE {is_same} AND ({negative}) LIMIT 1")
    ).one_or_none()
    if wrong is not None:
        raise CountError(
            f"{table} would get the inconsistent row {tuple(wrong)}: its counts do not match the links: run "
            "`hierogram verify`"
        )
    empty = " AND ".join(f"{count} = 0" for count in counts)
    transaction.connection.execute(
        text(
            f"DELETE FROM {table} WHERE ({', '.join(keys)}) IN (SELECT {', '.join(keys)} FROM {staged.name})"
            f" AND {empty}"
        )
    )


_COUNTS_AT_ONCE = 50_000
_FEW_PAIRS = 4_000
"""Maximum number of word pairs that are looked up one by one. For more, all rows of each source word are read."""
_OF_PAIRS = "SELECT source, target, forward, backward FROM aligner_lexicon"
_OF_WORDS = f"SELECT side, word, {', '.join(_WORDS[2])} FROM aligner_words"


_AMONG_ON_SQLITE, _AMONG_ON_POSTGRES = "IN (SELECT value FROM json_each(:{}))", "= ANY(:{})"


@lru_cache
def _count_statements(name_sets: int, among: str, target: str) -> tuple[TextClause, TextClause]:
    """Return the cached statements that find the counts of words, and of word pairs within each set of names."""
    pairs, words = [], []
    for number in range(name_sets):
        sources, targets = among.format(f"sources_{number}"), among.format(f"targets_{number}")
        pairs.append(f"{_OF_PAIRS} WHERE source {sources} AND {target} {targets}")
        words.append(f"{_OF_WORDS} WHERE side = 'source' AND word {sources}")
        words.append(f"{_OF_WORDS} WHERE side = 'target' AND word {targets}")
    return text(" UNION ALL ".join(pairs)), text(" UNION ALL ".join(words))


_OF_STATE = text(
    "SELECT position, source_types, target_types, EXISTS (SELECT 1 FROM human_links WHERE pair_id > 0) FROM store_state"
)
_OF_JUMPS = text("SELECT direction, width, count FROM aligner_jumps")


def iterate_aligner_counts(connection: Connection) -> Iterator[AlignerCounts]:
    """Yield all counts of the aligner in parts."""
    yield AlignerCounts([], [], read_rows(connection, _OF_JUMPS))
    for rows in connection.execute(text(_OF_PAIRS).execution_options(stream_results=True)).partitions(_COUNTS_AT_ONCE):
        yield AlignerCounts([(*row,) for row in rows], [], [])
    for rows in connection.execute(text(_OF_WORDS).execution_options(stream_results=True)).partitions(_COUNTS_AT_ONCE):
        yield AlignerCounts([], [WordCounts._make(row) for row in rows], [])


def aligner_counts(connection: Connection, names: Sequence[SideNames], jumps: JumpRows | None = None) -> AlignerCounts:
    """Return the counts of these names, for each set of names separately, and of all jumps, read unless given."""
    counts = AlignerCounts([], [], read_rows(connection, _OF_JUMPS) if jumps is None else jumps)
    if names:
        (lexicon, words), parameters = _name_statements(connection.dialect.name, names)
        counts.lexicon.extend(read_rows(connection, lexicon, parameters))
        counts.words.extend(map(WordCounts._make, read_rows(connection, words, parameters)))
    return counts


def _name_statements(
    dialect: str, name_sets: Sequence[SideNames]
) -> tuple[tuple[TextClause, TextClause], dict[str, object]]:
    parameters: dict[str, object] = {}
    for number, sides in enumerate(name_sets):
        for side, names in zip(("sources", "targets"), sides, strict=True):
            parameters[f"{side}_{number}"] = json.dumps(list(names)) if dialect == SQLITE else list(names)
    if dialect != SQLITE:
        return _count_statements(len(name_sets), _AMONG_ON_POSTGRES, "target"), parameters
    few = sum(len(sources) * len(targets) for sources, targets in name_sets) <= _FEW_PAIRS
    # The + keeps SQLite from using the index for each combination of source and target word.
    return _count_statements(len(name_sets), _AMONG_ON_SQLITE, "target" if few else "+target"), parameters


def link_rows() -> Select[tuple[object, ...]]:
    """Return a SELECT of the columns of `LinkRow`, in order."""
    return select(
        sentence_pairs.c.id,
        sentence_pairs.c.source,
        sentence_pairs.c.target,
        sentence_pairs.c.alignment,
        sentence_pairs.c.state,
        sentence_pairs.c.aligned_by,
        pair_links.c.forward,
        pair_links.c.backward,
        pair_links.c.sweep,
    )
