"""Looking rules up, and how much a store holds."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import ColumnElement, Connection, Double, Select, cast, func, select, tuple_
from sqlalchemy.sql.base import ReadOnlyColumnCollection

from hierogram.samplers.grammar.kinds import SOURCE, TARGET, TWO_SIDES, notation_of
from hierogram.samplers.grammar.rules import escape_terminal, terminal_of
from hierogram.samplers.grammar.uses import ONE_SQUARE, ONE_USE
from hierogram.storage.database.transactions import read_state
from hierogram.storage.operations.settings import read_settings
from hierogram.storage.pairs.spellings import readings, spellings
from hierogram.storage.records import (
    LabelRow,
    RuleRow,
    StoreStatus,
)
from hierogram.storage.records.operations import CLASSES_OF_RULES
from hierogram.storage.schema.tables import corpora, labels, rule_words, rules, sweeps, vocabulary


@dataclass(frozen=True, slots=True)
class Wanted:
    """What rules to find: whole sides, words on either side or on theirs, and those after a rule (its uses and sides).

    Uses are expected ones in units of 1/`ONE_USE`, or, `drawn`, those of the present derivations.
    """

    source: str | None
    target: str | None
    words: Sequence[str]
    source_words: Sequence[str]
    target_words: Sequence[str]
    after: tuple[int, str, str] | None
    drawn: bool = False


def find_rules(connection: Connection, conditions: Wanted, limit: int) -> list[RuleRow]:
    """Rules that meet every condition, best (most often used) first."""
    source, target, after = conditions.source, conditions.target, conditions.after
    uses = rules.c.count if conditions.drawn else rules.c.sampled_count
    found = select(rules).where(uses > 0)
    if after is not None:
        least, *sides = after
        found = found.where(
            (uses < least) | ((uses == least) & (tuple_(rules.c.source, rules.c.target) > tuple_(*sides)))
        )
    if source is not None:
        found = found.where(rules.c.source == source)
    if target is not None:
        found = found.where(rules.c.target == target)
    wanted = _word_ids(connection, conditions.words, conditions.source_words, conditions.target_words)
    if wanted is None:
        return []
    for n, ids in enumerate(wanted):
        # The first is the rarest: it finds the rules, the others only test them.
        found = found.where(_holds_first(ids) if n == 0 and source is None and target is None else _holds(ids))
    best = found.order_by(uses.desc(), rules.c.source, rules.c.target).limit(limit).subquery("best")
    used = best.c[uses.name]
    totals = []
    for name in (SOURCE, TARGET):
        of_side = rules.alias(f"of_{name}")
        total = select(func.sum(of_side.c[uses.name])).where(of_side.c[name] == best.c[name]).scalar_subquery()
        totals.append(cast(used, Double) / cast(total, Double))
    statement = select(
        best.c.id,
        best.c.source,
        best.c.target,
        best.c.length,
        best.c.scope,
        best.c.nonterminals,
        best.c.hiero,
        *means(best.c),
        best.c.count,
        *totals,
    ).order_by(used.desc(), best.c.source, best.c.target)
    rows: list[tuple[Any, ...]] = [tuple(row) for row in connection.execute(statement)]
    return [RuleRow(*row) for row in rows]


def respelled(connection: Connection, conditions: Wanted) -> list[Wanted]:
    """The same conditions with words that differ from theirs in accents or capital letters, the likeliest first."""
    two_sides = TWO_SIDES in notation_of(read_settings(connection).grammar).offers
    sides = [
        (side, text.split(" ") if two_sides and text else [])
        for side, text in ((SOURCE, conditions.source), (TARGET, conditions.target))
    ]
    wanted = [
        *(
            (f"{side} ", (side,), [word for symbol in symbols if (word := terminal_of(symbol))])
            for side, symbols in sides
        ),
        (" ", (SOURCE, TARGET), conditions.words),
        (f"{SOURCE} ", (SOURCE,), conditions.source_words),
        (f"{TARGET} ", (TARGET,), conditions.target_words),
    ]
    # By place and word, as a word may be spelled otherwise on each side.
    choices = {
        place + word: [one.token for side in places for one in spellings(connection, side, word)]
        for place, places, words in wanted
        for word in words
    }

    def read(place: str, words: Sequence[str], reading: Mapping[str, str]) -> list[str]:
        return [reading[place + word] for word in words]

    def side_of(side: str, text: str | None, reading: Mapping[str, str]) -> str | None:
        if not text or not two_sides:
            return text
        words = ((symbol, terminal_of(symbol)) for symbol in text.split(" "))
        return " ".join(escape_terminal(reading[f"{side} {word}"]) if word else symbol for symbol, word in words)

    return [
        replace(
            conditions,
            source=side_of(SOURCE, conditions.source, reading),
            target=side_of(TARGET, conditions.target, reading),
            words=read(" ", conditions.words, reading),
            source_words=read(f"{SOURCE} ", conditions.source_words, reading),
            target_words=read(f"{TARGET} ", conditions.target_words, reading),
        )
        for reading in readings(choices)
    ]


def means(columns: ReadOnlyColumnCollection[str, Any]) -> tuple[ColumnElement[Any], ColumnElement[Any]]:
    """How often a rule is expected to be used, and the standard error of that."""
    variance = cast(columns["sampled_variance"], Double) / ONE_SQUARE
    return cast(columns["sampled_count"], Double) / ONE_USE, func.sqrt(variance, type_=Double)


def _word_ids(
    connection: Connection, words: Sequence[str], source_words: Sequence[str], target_words: Sequence[str]
) -> list[list[int]] | None:
    """For each wanted word its ids (two if either side will do), rarest first; None if one is unknown."""
    wanted = [
        *((word, (SOURCE, TARGET)) for word in words),
        *((word, (SOURCE,)) for word in source_words),
        *((word, (TARGET,)) for word in target_words),
    ]
    ranked = []
    for token, sides in wanted:
        rows = connection.execute(
            select(vocabulary.c.id, vocabulary.c.count).where(vocabulary.c.token == token, vocabulary.c.side.in_(sides))
        ).all()
        if not rows:
            return None
        ranked.append((sum(count for _, count in rows), [word_id for word_id, _ in rows]))
    return [ids for _, ids in sorted(ranked)]


def _holds_first(ids: Sequence[int]) -> ColumnElement[bool]:
    return rules.c.id.in_(select(rule_words.c.rule_id).where(rule_words.c.word_id.in_(ids)))


def _holds(ids: Sequence[int]) -> ColumnElement[bool]:
    held: Select[tuple[int]] = select(rule_words.c.word_id).where(
        rule_words.c.word_id.in_(ids), rule_words.c.rule_id == rules.c.id
    )
    return held.exists()


def status(connection: Connection, *, url: str, schema: str) -> StoreStatus:
    """How much the store holds; takes the same time whatever its size."""
    state = read_state(connection)
    last = connection.scalar(
        select(sweeps.c.log_likelihood)
        .where(sweeps.c.log_likelihood.is_not(None))
        .order_by(sweeps.c.id.desc())
        .limit(1)
    )
    by_corpus = connection.execute(select(corpora.c.name, corpora.c.pairs).order_by(corpora.c.name))
    return StoreStatus(
        url=url,
        schema=schema,
        position=state.position,
        pairs=state.pairs(),
        rules=state.rules,
        rule_tokens=state.rule_tokens,
        sampled_tokens=8 * state.sampled_tokens // ONE_USE,
        expected_tokens=state.sampled_tokens / ONE_USE,
        left_out={name: uses / ONE_USE for name, uses in zip(CLASSES_OF_RULES, state.left_out(), strict=True)},
        rejected=state.rejected,
        sweeps=state.sweeps,
        last_log_likelihood=last,
        corpora=dict(by_corpus.all()),
    )


def read_labels(connection: Connection) -> list[LabelRow]:
    """What is known of the labels of a tree grammar, in the order of their names."""
    statement = select(labels.c.label, labels.c.strength, labels.c.expansion_probability).order_by(labels.c.label)
    return [LabelRow._make(row) for row in connection.execute(statement)]
