"""Terms of a store, as `import hierogram` offers them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

from hierogram.daemon.library.options import resolve_options
from hierogram.daemon.library.store import GrammarStore
from hierogram.daemon.progress import Phases
from hierogram.tools.terms.options import TermOptions

if TYPE_CHECKING:
    from hierogram.tools.keywords import TermKeywords
    from hierogram.tools.terms.reports import TermReport


def terms(
    store: GrammarStore,
    *,
    departures: int = 0,
    options: TermOptions | None = None,
    progress: Phases | None = None,
    **chosen: Unpack[TermKeywords],
) -> TermReport:
    """Return phrases with consistent renderings, and up to `departures` exceptions of each term.

    Options are the fields of `TermOptions`. The pairs need links; the store needs no rules. Raises `UsageError`,
    `InputError`.
    """
    from hierogram.tools.terms.extraction import extract_terms

    return extract_terms(store.store, resolve_options(TermOptions, options, chosen), departures, progress)
