"""Held-out pairs of a store, so that weights can be tuned without a separate development set.

The pairs and their counts are removed from a copy of the store. They influence the remaining pairs only through links.
A language model of the remaining target sides is built.
"""

import random
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from hierogram.daemon.exceptions import UsageError, WrongKindError
from hierogram.daemon.learning.residents import withdraw_all
from hierogram.daemon.progress import Progress
from hierogram.daemon.text.lines import write_lines
from hierogram.daemon.text.segments import InWords
from hierogram.samplers.grammar.kinds import TRANSLATION, notation_of
from hierogram.storage.database.connection import parse_url, sqlite_file
from hierogram.storage.store import Store, open_store
from hierogram.tools.translation.language_models.files import make
from hierogram.tools.translation.language_models.options import EstimationOptions

LARGEST_SHARE = 10
"""Hold out at most one pair in ten, since the grammar of fewer pairs would differ too much."""


@dataclass(frozen=True, slots=True)
class HeldOut:
    """Store without the held-out pairs, a language model of its target sides, and the words of the held-out pairs."""

    store: Store
    model: str
    sentences: list[str]
    references: list[str]


@contextmanager
def held_out(store: Store, most: int, seed: int, shown: Progress) -> Iterator[HeldOut]:
    """Hold out up to `most` random pairs, in a copy that is deleted when the context ends.

    Raises `UsageError` if the store is not an SQLite store or has too few pairs, `WrongKindError` if its rules do not
    have two sides.
    """
    notation = notation_of(store.settings().grammar)
    if TRANSLATION not in notation.offers:
        raise WrongKindError(f"{store.url}: {notation.cannot('translate')}: its rules do not have two sides")
    if sqlite_file(parse_url(store.url)) is None:
        raise UsageError(f"{store.url}: holding out pairs requires an SQLite store: pass sentences to tune on")
    with tempfile.TemporaryDirectory(prefix="hierogram-") as folder:
        store.back_up(Path(folder, "copy.db"))
        with open_store(str(Path(folder, "copy.db"))) as copy:
            rows = copy.pairs()
            chosen = random.Random(seed).sample(rows, min(most, len(rows) // LARGEST_SHARE))
            if not chosen:
                raise UsageError(
                    f"{store.url}: too few pairs ({len(rows)}) to hold some out: pass sentences to tune on"
                )
            out = {row.id for row in chosen}
            view = InWords(copy.settings().bpe_merges)
            kept = [row.target for row in rows if row.id not in out]
            withdraw_all(copy, sorted(out), lambda pairs: shown.update(pairs, len(out), pairs))
            text, model = Path(folder, "target"), Path(folder, "target.lm")
            write_lines(text, kept)
            make([str(text)], [model], EstimationOptions(), shown)
            yield HeldOut(
                copy, str(model), [view.line(row.source) for row in chosen], [view.line(row.target) for row in chosen]
            )
