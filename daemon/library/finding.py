"""Find rules by their sides or words, as people type them."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from hierogram.daemon.exceptions import UsageError
from hierogram.daemon.text.texts import TextPipeline, TextSide, pipeline_of
from hierogram.samplers.exceptions import RuleNotationError
from hierogram.storage.records import RuleRow, Settings
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

    What is typed is looked for as it is, in a store of parts with its words divided, in one that divides text with
    tokens in the place of words, at last in other spellings.
    """
    look_up = partial(store.find_rules, limit=limit, after=after, drawn=drawn)
    wanted: list[tuple[str | None, str | None, Sequence[str]]] = [(source, target, words)]
    for sides in _divisions(store.settings()):
        # Each side divides words in its own way.
        lots = [" ".join(map(side.tokens, words)).split(" ") for side in sides] if words else [[]]
        with suppress(RuleNotationError):
            one, other = (
                text if text is None else side.typed(text) for side, text in zip(sides, (source, target), strict=True)
            )
            wanted += [(one, other, some) for some in lots]
    for respelled in (False, True):
        for of_source, of_target, some in wanted:
            if found := look_up(of_source, of_target, words=some, respelled=respelled):
                return FoundRules(found, respelled)
    return FoundRules([])


def _divisions(settings: Settings) -> Iterator[tuple[TextSide, TextSide]]:
    """Yield how the words of source and target may be divided into what the store has."""
    if settings.bpe_merges:
        words = TextPipeline(joins=settings.bpe_merges)
        yield words.source, words.target
    # What divides text may not be installed where somebody only looks.
    with suppress(UsageError):
        texts = pipeline_of(settings)
        if texts.rules is not None:
            yield texts.source, texts.target
