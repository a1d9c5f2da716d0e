"""How often pairs with links have each composition, as text."""

from collections import Counter
from collections.abc import Iterable

from tests.reference.examples import links_of
from tests.reference.forest import direct_forest
from tests.reference.rules import Side, compositions

_SPAN_LIMIT = 7


def side(symbols: Side) -> str:
    return " ".join(f"[X,{symbol}]" if isinstance(symbol, int) else str(symbol) for symbol in symbols)


def repeated(lines: Iterable[str]) -> dict[tuple[str, str], int]:
    """How often the lines `source ||| target ||| links` have each composition that they have twice at least."""
    found = Counter[tuple[str, str]]()
    for source, target, links in (line.split(" ||| ") for line in lines):
        forest = direct_forest(tuple(source.split()), tuple(target.split()), links_of(links))
        found.update((side(rule.source), side(rule.target)) for rule in compositions(forest, _SPAN_LIMIT))
    return {rule: uses for rule, uses in found.items() if uses >= 2}
