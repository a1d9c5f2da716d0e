"""Reading a whole store as one state, however long that takes and whoever writes meanwhile."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields
from typing import TypeVar

from sqlalchemy import Connection, Double, Executable, Select, cast, func, select

from hierogram.samplers.grammar.uses import ONE_USE
from hierogram.storage.aligner.aligner import all_aligner_counts, iterate_links
from hierogram.storage.database.transactions import read_state
from hierogram.storage.exports.blocks import Block, corpus_number, dated_pair_blocks, pair_blocks, rule_blocks
from hierogram.storage.grammar.queries import means, status
from hierogram.storage.operations.settings import read_settings
from hierogram.storage.pairs.pairs import pair_rows
from hierogram.storage.pairs.places import places
from hierogram.storage.records import (
    AlignerCounts,
    LinkRow,
    PairPlace,
    PairRow,
    RuleRow,
    Settings,
    StoredRule,
    StoreStatus,
)
from hierogram.storage.records.columns import StoredRules
from hierogram.storage.schema.tables import corpora, derivations, human_links, rules, sentence_pairs, vocabulary

T = TypeVar("T")

_ROWS_PER_FETCH = 5_000


class Snapshot:
    """One state of the store; made by `Store.snapshot`, usable until that ends."""

    def __init__(self, connection: Connection, *, url: str, schema: str) -> None:
        self._connection = connection
        self._url = url
        self._schema = schema

    def position(self) -> int:
        """The store position that this snapshot shows."""
        return read_state(self._connection).position

    def settings(self) -> Settings:
        """The settings of the store."""
        return read_settings(self._connection)

    def status(self) -> StoreStatus:
        """How much the store holds."""
        return status(self._connection, url=self._url, schema=self._schema)

    def left_out(self) -> tuple[int, ...]:
        """The expected uses that no rule counts, by number of nonterminals, in units of 1/`ONE_USE`."""
        return read_state(self._connection).left_out()

    def words(self, side: str) -> list[str]:
        """The different words of `source` or `target` sides of all pairs, in the order of their bytes."""
        statement = select(vocabulary.c.token).where(vocabulary.c.side == side).order_by(vocabulary.c.token)
        return list(self._connection.scalars(statement))

    def iterate_rules(
        self,
        *,
        max_scope: int | None = None,
        hiero: bool = False,
        min_count: int = 1,
        sampled: bool = False,
    ) -> Iterator[RuleRow]:
        """Rules in the byte order of (source, target), streamed.

        `max_scope` leaves out rules that parse slower than O(n^max_scope), `hiero` those that Chiang's (2007)
        constraints forbid, `min_count` the rarer ones. With `sampled`, expected uses take the place of the current
        ones, in the filter and in the probabilities. Probabilities are relative frequencies among all rules of the
        store with that source or target, before any filter.
        """
        least = rules.c.sampled_count >= max(min_count * ONE_USE, 1) if sampled else rules.c.count >= max(min_count, 1)
        statement = _rules_with_probabilities(sampled).where(least)
        if max_scope is not None:
            statement = statement.where(rules.c.scope <= max_scope)
        if hiero:
            statement = statement.where(rules.c.hiero)
        return self._stream(RuleRow, statement.order_by(rules.c.source, rules.c.target))

    def iterate_all_rule_rows(self) -> Iterator[StoredRule]:
        """Every row of the table of rules, streamed, in no particular order."""
        columns = [rules.c[field.name] for field in fields(StoredRule)]
        return self._stream(StoredRule, select(*columns))

    def stored_rules(self) -> StoredRules:
        """The table of rules, as columns."""
        from hierogram.storage.grammar.counts import stored_rules

        return stored_rules(self._connection)

    def rule_blocks(self, columns: Sequence[str], *, sampled: bool = False) -> Iterator[Block]:
        """Columns of the rules with a count, and the count, the quickest way to read them all: see `storage.bulk`."""
        return rule_blocks(self._connection, columns, sampled=sampled)

    def count_rules(self, *, sampled: bool = False) -> int:
        """How many rules `rule_blocks` gives."""
        column = rules.c.sampled_count if sampled else rules.c.count
        return self._connection.scalar(select(func.count()).select_from(rules).where(column > 0)) or 0

    def variance_a_use(self) -> float | None:
        """The variance of the error of expected uses over these, of all rules together; None without any."""
        sums = select(func.sum(rules.c.sampled_variance), func.sum(rules.c.sampled_count))
        variance, uses = self._connection.execute(sums).one()
        return float(variance) / (ONE_USE * float(uses)) if uses else None

    def pair_blocks(self, corpus_id: int | None = None) -> Iterator[Block]:
        """Pairs, all or those of a corpus, as blocks of columns: see `storage.bulk`."""
        return pair_blocks(self._connection, corpus_id)

    def dated_pair_blocks(self, corpus_id: int | None = None) -> Iterator[Block]:
        """Pairs with their corpora and days of arrival, all or those of a corpus, as blocks: see `blocks`."""
        return dated_pair_blocks(self._connection, corpus_id)

    def places(self, pair_ids: Sequence[int]) -> dict[int, PairPlace]:
        """Where pairs came from, by id."""
        return places(self._connection, pair_ids)

    def word_counts(self, side: str) -> list[tuple[str, int]]:
        """The different words of `source` or `target` sides of all pairs, and how often each occurs; by their ids."""
        statement = select(vocabulary.c.token, vocabulary.c.count).where(vocabulary.c.side == side)
        found = self._connection.execute(statement.order_by(vocabulary.c.id))
        return [(token, count) for token, count in found]

    def corpus_id(self, name: str) -> int | None:
        """The id of the corpus with the name; None where there is none."""
        return corpus_number(self._connection, name)

    def corpus_names(self) -> dict[int, str]:
        """The names of the corpora, by id."""
        return {row.id: row.name for row in self._connection.execute(select(corpora.c.id, corpora.c.name))}

    def iterate_derivations(self, batch: int = 1_000, corpus_id: int | None = None) -> Iterator[list[PairRow]]:
        """The pairs (of a corpus) that have a derivation, with it, in id order, in lists of at most `batch`."""
        statement = pair_rows().where(derivations.c.pair_id.is_not(None)).order_by(sentence_pairs.c.id)
        if corpus_id is not None:
            statement = statement.where(sentence_pairs.c.corpus_id == corpus_id)
        result = self._connection.execute(statement, execution_options={"yield_per": batch})
        for rows in result.partitions():
            yield [PairRow._make(row) for row in rows]

    def aligner_counts(self) -> AlignerCounts:
        """All counts of the aligner."""
        return all_aligner_counts(self._connection)

    def count_human_links(self) -> int:
        """How many links people have fixed or forbidden."""
        return self._connection.scalar(select(func.count()).select_from(human_links)) or 0

    def iterate_links(self, batch: int = 1_000) -> Iterator[list[LinkRow]]:
        """All pairs that the aligner has seen, in id order, in lists of at most `batch`."""
        return iterate_links(self._connection, batch)

    def integrity(self) -> list[str]:
        """What is wrong with the store, one line each; see `Store.integrity`."""
        return self.file_damage() or self.table_problems(self.stored_rules())

    def file_damage(self) -> list[str]:
        """What makes the database itself unreadable, one line each."""
        from hierogram.storage.checks.integrity import file_damage

        return file_damage(self._connection)

    def table_problems(self, stored: StoredRules) -> list[str]:
        """What is wrong between the tables of a database that can be read, one line each; `stored` are its rules."""
        from hierogram.storage.checks.integrity import table_problems

        return table_problems(self._connection, stored)

    def _stream(self, make: Callable[..., T], statement: Executable) -> Iterator[T]:
        result = self._connection.execute(statement, execution_options={"yield_per": _ROWS_PER_FETCH})
        for rows in result.partitions():
            for row in rows:
                yield make(*row)


def _rules_with_probabilities(sampled: bool) -> Select[tuple[object, ...]]:
    count = rules.c.sampled_count if sampled else rules.c.count
    source_totals = select(rules.c.source, func.sum(count).label("total")).group_by(rules.c.source).cte()
    target_totals = select(rules.c.target, func.sum(count).label("total")).group_by(rules.c.target).cte()
    return (
        select(
            rules.c.id,
            rules.c.source,
            rules.c.target,
            rules.c.length,
            rules.c.scope,
            rules.c.nonterminals,
            rules.c.hiero,
            *means(rules.c),
            rules.c.count,
            cast(count, Double) / cast(source_totals.c.total, Double),
            cast(count, Double) / cast(target_totals.c.total, Double),
        )
        .join(source_totals, source_totals.c.source == rules.c.source)
        .join(target_totals, target_totals.c.target == rules.c.target)
    )
