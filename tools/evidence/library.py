"""Evidence of a store, as `import hierogram` offers it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

from hierogram.daemon.library.options import options_of
from hierogram.daemon.library.store import GrammarStore
from hierogram.tools.evidence.options import EvidenceOptions

if TYPE_CHECKING:
    from hierogram.tools.evidence.gathering import Evidence
    from hierogram.tools.evidence.keywords import EvidenceKeywords


def evidence(
    store: GrammarStore, sentence: str, *, options: EvidenceOptions | None = None, **chosen: Unpack[EvidenceKeywords]
) -> Evidence:
    """Return the store's evidence on a sentence: matching rules, pairs that share most of its words, dictionary
    entries.

    Options are those of `EvidenceOptions`. Raises `InputError` if the sentence is empty or too long.
    """
    from hierogram.tools.evidence.gathering import gather

    wanted = options_of(EvidenceOptions, options, chosen)
    with store.reader.look() as look:
        return gather(look, sentence, wanted)
