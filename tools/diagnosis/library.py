"""Diagnosis of a store, as `import hierogram` offers it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

from hierogram.daemon.library.options import resolve_options
from hierogram.daemon.library.store import GrammarStore
from hierogram.daemon.progress import Steps
from hierogram.tools.diagnosis.options import ChainOptions

if TYPE_CHECKING:
    from hierogram.tools.diagnosis.diagnosis import Diagnosis
    from hierogram.tools.keywords import ChainKeywords


def diagnose(
    store: GrammarStore,
    *,
    options: ChainOptions | None = None,
    progress: Steps = lambda *_: None,
    **chosen: Unpack[ChainKeywords],
) -> Diagnosis:
    """Run several chains over the store's pairs, in memory, and return how well they agree.

    Options are the fields of `ChainOptions`: `chains=4, sweeps=200`. Raises `InputError` if the store has no pairs.
    """
    from hierogram.tools.diagnosis.chains import run_chains
    from hierogram.tools.diagnosis.diagnosis import diagnose

    return diagnose(run_chains(store.store, resolve_options(ChainOptions, options, chosen), progress))
