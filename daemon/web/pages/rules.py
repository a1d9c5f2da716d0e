"""The page of a rule: expected uses over time, competing rules, and pairs that use the rule."""

from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from hierogram.daemon.web.pages.forms import query_values, whole_number
from hierogram.daemon.web.pages.rendering import PageContext, build_url, is_side, sentences
from hierogram.samplers.grammar.kinds import SOURCE, TARGET, TWO_SIDES
from hierogram.storage.browsing import details

_MAX_COMPETING_RULES = 12
_MAX_LINES = 10


def rule_routes(page: PageContext) -> APIRouter:
    """Return the router of `/rule` and `/rule/pairs`."""
    router = APIRouter()

    @router.get("/rule")
    @router.get("/rule.json")
    def rule_page(request: Request) -> Response:
        parameters = query_values(request, "source", "target")
        source, target = parameters.get("source", ""), parameters.get("target", "")
        with page.read() as snapshot:
            transaction, word_view = snapshot.transaction, snapshot.word_view
            rule = details.find_rule(transaction, source, target)
            history: list[dict[str, Any]] = []
            if rule is not None:
                history = details.read_rule_history(transaction, rule.id)
                history.append({"day": "now", "expected_uses": rule.expected_uses})
            content: dict[str, Any] = {
                "source": source,
                "target": target,
                "rule": rule,
                "history": history,
                "rivals": {
                    SOURCE: details.find_competing_rules(transaction, SOURCE, source, _MAX_COMPETING_RULES),
                    TARGET: details.find_competing_rules(transaction, TARGET, target, _MAX_COMPETING_RULES),
                },
                "two_sides": TWO_SIDES in snapshot.grammar_kind.capabilities,
                "_sides": (word_view.side(source), word_view.side(target)),
            }
        return page.render(request, "rule", content, snapshot)

    @router.get("/rule/pairs")
    @router.get("/rule/pairs.json")
    def pairs_of_rule(request: Request) -> Response:
        # Import here, because other pages do not need the compiler.
        from hierogram.daemon.learning.derivations import ConcordancePage, concordance

        parameters = query_values(request, "source", "target", "after")
        source, target = parameters.get("source", ""), parameters.get("target", "")
        with page.read() as snapshot:
            transaction, word_view = snapshot.transaction, snapshot.word_view
            rule = details.find_rule(transaction, source, target)
            start = whole_number(parameters.get("after", "")) or 0
            # Search also for valid rules that are not stored yet, because a pair may already use them.
            rule_id, is_valid = (rule.id if rule else None), is_side(source) and is_side(target)
            if rule or is_valid:
                concordance_page = concordance(transaction, (rule_id, source, target), start, _MAX_LINES)
            else:
                concordance_page = ConcordancePage([], None, True, 0, 0)
            pairs = {
                line.id: word_view.pair(line.source, line.target, line.alignment) for line in concordance_page.lines
            }
            content = {
                "source": source,
                "target": target,
                **concordance_page._asdict(),
                "_sentences": {
                    line.id: sentences(
                        *pairs[line.id][:3],
                        {
                            SOURCE: {pairs[line.id].source_word_indices[n] for n in line.source_positions},
                            TARGET: {pairs[line.id].target_word_indices[n] for n in line.target_positions},
                        },
                    )
                    for line in concordance_page.lines
                },
                "_sides": (word_view.side(source), word_view.side(target)),
                "_after": start,
                "_next": build_url("/rule/pairs", source=source, target=target, after=concordance_page.next),
            }
        return page.render(request, "rule_pairs", content, snapshot)

    return router
