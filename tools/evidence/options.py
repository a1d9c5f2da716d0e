"""Options of the evidence for a sentence, for the command line and HTTP."""

from dataclasses import dataclass
from typing import Annotated

from hierogram.daemon.shared_options import Tokenized
from hierogram.storage.options import Option

MAX_PAIRS, MAX_RULES = 50, 500
MAX_CHARACTERS = 20_000


@dataclass(frozen=True, kw_only=True)
class EvidenceOptions:
    """Limits of the evidence for a sentence."""

    pairs: Annotated[
        int,
        Option(
            "Maximum number of stored pairs. Each pair is chosen for words that earlier pairs do not cover.",
            min=0,
            max=MAX_PAIRS,
        ),
    ] = 5
    rules: Annotated[int, Option("Maximum number of matching rules.", min=0, max=MAX_RULES)] = 60
    renderings: int = 3
    """Maximum number of rules with the same source side."""
    tokenized: Tokenized = False


def candidate_limits(*, tokenized: bool) -> EvidenceOptions:
    """Return limits that provide enough candidates for evidence within a budget of characters."""
    return EvidenceOptions(pairs=MAX_PAIRS, rules=MAX_RULES, renderings=5, tokenized=tokenized)
