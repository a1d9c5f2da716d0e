"""The page of a rule: its counts now and before, the rules that compete with it, and pairs that use it."""

from typing import Any

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import Response

from hierogram.daemon.web.pages.forms import texts, whole_number
from hierogram.daemon.web.pages.rendering import PageContext, address, is_side, sentences, symbols_of
from hierogram.samplers.grammar.kinds import SOURCE, TARGET, TWO_SIDES, notation_of
from hierogram.storage.browsing import looking
from hierogram.storage.browsing.reader import Look
from hierogram.storage.browsing.search import Found

_RIVALS = 12
_LINES = 10


def rule_routes(page: PageContext) -> APIRouter:
    """The routes of this module."""
    router = APIRouter()

    @router.get("/rule")
    @router.get("/rule.json")
    def rule_page(request: Request) -> Response:
        """A rule, by its sides."""
        source, target = _sides(request)
        with page.reader.look() as look:
            settings = look.settings()
            notation = notation_of(settings.grammar)
            found = looking.find_rule(look, source, target)
            content: dict[str, Any] = {
                "source": source,
                "target": target,
                "rule": found,
                "history": _history(look, found),
                "rivals": {
                    SOURCE: looking.rivals(look, SOURCE, source, _RIVALS),
                    TARGET: looking.rivals(look, TARGET, target, _RIVALS),
                },
                "two_sides": TWO_SIDES in notation.offers,
                "sql": look.asked,
                "_symbols": lambda side: symbols_of(side, notation),
                "_many": notation.many,
                "_one": notation.one,
                "_here": address("/rule", source=source, target=target),
                "_pairs": address("/rule/pairs", source=source, target=target),
            }
        return page.view.answer(request, "rule", content)

    @router.get("/rule/pairs")
    @router.get("/rule/pairs.json")
    def pairs_of_rule(request: Request) -> Response:
        """Pairs whose present derivation uses a rule."""
        # Whoever only looks for words needs no compiler.
        from hierogram.daemon.grammar.derivations import Lines, concordance

        source, target = _sides(request)
        after = texts(request, "source", "target", "after").get("after", "")
        with page.reader.look() as look:
            notation = notation_of(look.settings().grammar)
            found = looking.find_rule(look, source, target)
            start = whole_number(after) or 0
            # A pair may use a rule that is not stored yet, but none that cannot be written so.
            rule_id, possible = (found.id if found else None), is_side(source) and is_side(target)
            if found or possible:
                lines = concordance(look, (rule_id, source, target), start, _LINES)
            else:
                lines = Lines([], None, True, 0, 0)
            content = {
                "source": source,
                "target": target,
                **lines._asdict(),
                "sql": look.asked,
                "_sentences": {line.id: sentences(line) for line in lines.lines},
                "_after": start,
                "_next": address("/rule/pairs", source=source, target=target, after=lines.next),
                "_symbols": lambda side: symbols_of(side, notation),
                "_many": notation.many,
                "_one": notation.one,
            }
            return page.view.answer(request, "rule_pairs", content)

    return router


def _sides(request: Request) -> tuple[str, str]:
    given = texts(request, "source", "target", "after")
    return given.get("source", ""), given.get("target", "")


def _history(look: Look, found: Found | None) -> list[dict[str, Any]]:
    """The expected uses when days began on which they changed, and now."""
    if found is None:
        return []
    past = looking.past_counts(look, found.id)
    return [*past, {"day": "now", "expected_uses": found.expected_uses}]
