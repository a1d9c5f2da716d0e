"""Search for rules by sides or words in the spelling of a person."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from hierogram.daemon.exceptions import UsageError
from hierogram.daemon.text.texts import TextPipeline, TextSide, make_pipeline
from hierogram.samplers.exceptions import RuleNotationError
from hierogram.storage.records import RuleRow, Settings
from hierogram.storage.store import Store


class FoundRules(NamedTuple):
    """Found rules, and whether their spelling differs from the query in accents or capital letters."""

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
    """Like `Store.find_rules`; if nothing is found, divide the query as the store does, then try other spellings."""
    look_up = partial(store.find_rules, limit=limit, after=after, drawn=drawn)
    wanted: list[tuple[str | None, str | None, Sequence[str]]] = [(source, target, words)]
    for sides in _divisions(store.settings()):
        # Each side has its own tokenizer.
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
    if settings.bpe_merges:
        words = TextPipeline(merges=settings.bpe_merges)
        yield words.source, words.target
    # A machine that only reads the store may lack the tokenizer's package.
    with suppress(UsageError):
        texts = make_pipeline(settings)
        if texts.rules is not None:
            yield texts.source, texts.target
