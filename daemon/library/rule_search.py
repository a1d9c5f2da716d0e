"""Search for rules by sides or words, as users type them."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import NamedTuple

from hierogram.daemon.exceptions import UsageError
from hierogram.daemon.library.options import check_integer, check_text
from hierogram.daemon.text.texts import TextPipeline, TextSide, make_pipeline
from hierogram.samplers.exceptions import RuleNotationError
from hierogram.storage.records.grammar import RuleRow
from hierogram.storage.records.settings import Settings
from hierogram.storage.store import Store


class FoundRules(NamedTuple):
    """Search result. `respelled`: the rules differ from the query in accents or capital letters."""

    rules: list[RuleRow]
    respelled: bool = False


def find_rules(
    store: Store,
    source: str | None,
    target: str | None,
    containing: str | Sequence[str] = (),
    *,
    limit: int,
    after: tuple[float, str, str] | None = None,
    current_sample: bool = False,
) -> FoundRules:
    """Like `Store.find_rules`; if nothing is found, divide the query as the store does, then try other spellings."""
    source = None if source is None else check_text("source", source)
    target = None if target is None else check_text("target", target)
    words = containing.split() if isinstance(containing, str) else [check_text("containing", w) for w in containing]
    limit = check_integer("limit", limit, 0)
    look_up = partial(store.find_rules, limit=limit, after=after, current_sample=current_sample)
    queries: list[tuple[str | None, str | None, Sequence[str]]] = [(source, target, words)]
    for sides in _tokenizers(store.settings()):
        # Each side has its own tokenizer.
        word_lists = [" ".join(map(side.tokens, words)).split(" ") for side in sides] if words else [[]]
        with suppress(RuleNotationError):
            split_source, split_target = (
                text if text is None else side.typed(text) for side, text in zip(sides, (source, target), strict=True)
            )
            queries += [(split_source, split_target, split_words) for split_words in word_lists]
    for respelled in (False, True):
        for query_source, query_target, query_words in queries:
            if rules := look_up(query_source, query_target, words=query_words, respelled=respelled):
                return FoundRules(rules, respelled)
    return FoundRules([])


def _tokenizers(settings: Settings) -> Iterator[tuple[TextSide, TextSide]]:
    if settings.word_parts:
        words = TextPipeline(merges=settings.word_parts)
        yield words.source, words.target
    # The tokenizer's package may be missing on a machine that only reads the store.
    with suppress(UsageError):
        texts = make_pipeline(settings)
        if texts.rules is not None:
            yield texts.source, texts.target
