"""Find rules by their sides or words, as people type them."""

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from hierogram.daemon.corpora.segments import InWords
from hierogram.samplers.exceptions import RuleNotationError
from hierogram.storage.records import RuleRow
from hierogram.storage.store import Store


class FoundRules(NamedTuple):
    """Rules, and whether their words differ from what was typed in accents or capital letters."""

    rules: list[RuleRow]
    respelled: bool = False


def find_rules(
    store: Store,
    source: str | None,
    target: str | None,
    words: Sequence[str] = (),
    *,
    limit: int,
    after: tuple[float, str, str] | None = None,
    drawn: bool = False,
) -> FoundRules:
    """Return rules with these sides, and with words on either side, most often used first, as `Store.find_rules` does.

    What is typed is looked for as it is, in a store of parts with its words divided, at last in other spellings.
    """
    look_up = partial(store.find_rules, limit=limit, after=after, drawn=drawn)
    wanted: list[tuple[str | None, str | None, Sequence[str]]] = [(source, target, words)]
    view = InWords(store.settings().joins)
    if view.joins:
        # Each side divides words in its own way.
        lots = [" ".join(view.parts(side, word) for word in words).split() for side in (0, 1)] if words else [[]]
        with suppress(RuleNotationError):
            one, other = (text if text is None else view.typed(k, text) for k, text in enumerate((source, target)))
            wanted += [(one, other, some) for some in lots]
    for respelled in (False, True):
        for of_source, of_target, some in wanted:
            if found := look_up(of_source, of_target, words=some, respelled=respelled):
                return FoundRules(found, respelled)
    return FoundRules([])
