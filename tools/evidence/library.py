"""Evidence of a store, as `import hierogram` offers it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

from hierogram.daemon.library.options import resolve_options
from hierogram.daemon.library.store import GrammarStore
from hierogram.tools.evidence.options import EvidenceOptions

if TYPE_CHECKING:
    from hierogram.tools.evidence.retrieval import Evidence
    from hierogram.tools.keywords import EvidenceKeywords


def evidence(
    store: GrammarStore, sentence: str, *, options: EvidenceOptions | None = None, **chosen: Unpack[EvidenceKeywords]
) -> Evidence:
    """Return the store's evidence on a sentence: matching rules, similar pairs, dictionary entries.

    Options are the fields of `EvidenceOptions`. Raises `InputError` if the sentence is empty or too long.
    """
    from hierogram.tools.evidence.retrieval import find_evidence

    resolved = resolve_options(EvidenceOptions, options, chosen)
    with store.reader.read() as transaction:
        return find_evidence(transaction, sentence, resolved)
