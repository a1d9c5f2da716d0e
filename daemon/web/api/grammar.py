"""Routes for rules, pairs and derivations, and for the withdrawal of a pair."""

from dataclasses import dataclass, replace
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import BaseModel, Field
from starlette.responses import Response

from hierogram.daemon.shared_options import RuleQuery
from hierogram.daemon.text.word_view import PairInWords, WordView, find_word_span
from hierogram.daemon.web.protocol.bodies import PairId
from hierogram.daemon.web.protocol.context import Service, WebContext
from hierogram.daemon.web.protocol.problems import PAIR_NOT_FOUND, ProblemError, describe, unknown_pair
from hierogram.samplers.grammar.numbers import ONE_USE
from hierogram.samplers.grammar.rules import RuleUse
from hierogram.storage.options import OptionField
from hierogram.storage.records.grammar import RuleRow
from hierogram.storage.records.pairs import PairRecord

_NO_NUL = r"^[^\x00]+$"
_CURSOR_PATTERN = r"^[0-9]{1,18}\t[^\x00\t]*\t[^\x00\t]*$"
"""Pattern of cursors: uses in the store's integer units, source and target of the last rule of a page."""

_SIDE_CONSTRAINTS = {"max_length": 10_000, "pattern": _NO_NUL}
_RULE_FIELDS = OptionField.of(RuleQuery)

SourceSide = Annotated[str | None, Query(**_SIDE_CONSTRAINTS, **_RULE_FIELDS["source"].constraints())]
TargetSide = Annotated[str | None, Query(**_SIDE_CONSTRAINTS, **_RULE_FIELDS["target"].constraints())]
Limit = Annotated[int, Query(le=1_000, **_RULE_FIELDS["limit"].constraints())]
Word = Annotated[str, Query(max_length=1_024, pattern=_NO_NUL)]


class RulesAnswer(BaseModel):
    """A page of rules, most used first."""

    rules: list[RuleRow]
    next: str | None = Field(description="Cursor of the next page, or null.")


@dataclass(frozen=True, slots=True)
class DerivationAnswer:
    """A pair's current derivation. The rules are listed top-down in source order, the root first."""

    pair: int
    state: str
    sweep: int
    rules: list[RuleUse]


def find_word_pair(service: Service, pair_id: int) -> tuple[PairRecord, PairInWords]:
    """Return a stored pair, and the pair in whole words. Raises `ProblemError` (404) for an unknown id."""
    pair = service.store.find_pair(pair_id)
    if pair is None:
        raise unknown_pair(pair_id)
    word_view = WordView(service.store.settings().word_parts)
    return pair, word_view.pair(pair.source, pair.target, pair.alignment, pair.link_probabilities)


def grammar_routes(context: WebContext) -> APIRouter:
    """Return the router of `/v1/rules` and `/v1/pairs/{pair_id}`."""
    router = APIRouter(prefix="/v1", tags=["grammar"])
    service, store = context.service, context.service.store

    @router.get("/rules", responses={409: {"description": "Nothing learned yet."}})
    def rules(
        source: SourceSide = RuleQuery.source,
        target: TargetSide = RuleQuery.target,
        containing: Annotated[
            list[Word] | None, Query(max_length=10, description="Words that occur on either side.")
        ] = None,
        limit: Limit = RuleQuery.limit,
        cursor: Annotated[
            str | None, Query(max_length=100_000, pattern=_CURSOR_PATTERN, description="`next` of the previous page.")
        ] = None,
        current_sample: Annotated[
            bool, Query(description="Use counts of the current derivations instead of expected uses.")
        ] = False,
    ) -> RulesAnswer:
        """Return rules with these sides or words, or all rules by default, most used first.

        If no rule matches exactly, rules that differ only in accents or capital letters are returned.
        """
        unit = 1 if current_sample else ONE_USE
        after = None
        if cursor is not None:
            uses, *sides = cursor.split("\t")
            after = (int(uses) / unit, sides[0], sides[1])
        rules, _ = service.grammar_store.find_rules(
            source, target, containing=containing or (), limit=limit + 1, after=after, current_sample=current_sample
        )
        view = WordView(store.settings().word_parts).side
        rows = [replace(rule, source=view(rule.source), target=view(rule.target)) for rule in rules[:limit]]
        next_cursor = None
        if len(rules) > limit:
            # The cursor contains uses in the store's integer units, because the store sorts by these.
            last = rules[limit - 1]
            after_uses = last.count if current_sample else round(last.expected_uses * unit)
            next_cursor = f"{after_uses}\t{last.source}\t{last.target}"
        return RulesAnswer(rules=rows, next=next_cursor)

    @router.get("/pairs/{pair_id}", responses=PAIR_NOT_FOUND)
    def pair(pair_id: PairId) -> PairRecord:
        """Return a stored pair. Subwords are joined to words."""
        stored, words = find_word_pair(service, pair_id)
        shown = {name: getattr(words, name) for name in ("source", "target", "alignment", "link_probabilities")}
        return replace(stored, **shown)

    responses = PAIR_NOT_FOUND | describe({409: "The pair has no derivation yet."})

    @router.get("/pairs/{pair_id}/derivation", responses=responses)
    def derivation(pair_id: PairId) -> DerivationAnswer:
        """Return a pair's current derivation."""
        from hierogram.daemon.learning.derivations import read_derivation

        row = next(iter(store.pairs_by_id([pair_id])), None)
        if row is None:
            raise unknown_pair(pair_id)
        if row.current is None:
            raise ProblemError(HTTPStatus.CONFLICT, f"pair {pair_id} is {row.state} and has no derivation yet")
        settings = store.settings()
        word_view = WordView(settings.word_parts)
        word_pair = word_view.pair(row.source, row.target)
        uses = []
        for use in read_derivation(row, settings):
            source_span = find_word_span(word_pair.source_word_indices, use.source_span)
            target_span = find_word_span(word_pair.target_word_indices, use.target_span)
            source, target = word_view.side(use.source), word_view.side(use.target)
            uses.append(replace(use, source=source, target=target, source_span=source_span, target_span=target_span))
        return DerivationAnswer(row.id, row.state, row.sweep, uses)

    responses = PAIR_NOT_FOUND | describe({202: "Accepted. The pair will be removed by the sampling loop."})

    @router.delete("/pairs/{pair_id}", status_code=204, responses=responses)
    async def withdraw(pair_id: PairId) -> Response:
        """Withdraw a pair and its counts."""

        def withdraw_and_check() -> bool:
            if pair_id not in service.withdraw([pair_id]):
                raise unknown_pair(pair_id)
            return store.find_pair(pair_id) is None

        is_withdrawn = await context.threads.run_change(withdraw_and_check)
        return Response(status_code=HTTPStatus.NO_CONTENT if is_withdrawn else HTTPStatus.ACCEPTED)

    return router
