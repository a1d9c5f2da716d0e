"""Options of the evidence for a sentence, for the command line and HTTP."""

from dataclasses import dataclass
from typing import Annotated

from hierogram.daemon.shared_options import Tokenized
from hierogram.storage.options import Option

MOST_PAIRS, MOST_RULES = 50, 500
MOST_CHARACTERS = 20_000
"""Maximum number of characters of evidence within a budget."""
_RENDERINGS_TO_CHOOSE_FROM = 5


@dataclass(frozen=True, kw_only=True)
class EvidenceOptions:
    """Bounds of what is reported of a sentence."""

    pairs: Annotated[
        int, Option("Stored pairs, each chosen for what those before it do not cover.", min=0, max=MOST_PAIRS)
    ] = 5
    rules: Annotated[int, Option("Rules that match, at most.", min=0, max=MOST_RULES)] = 60
    renderings: int = 3
    """Maximum number of rules with one source side."""
    tokenized: Tokenized = False


def to_choose_from(*, tokenized: bool) -> EvidenceOptions:
    """Return the limits of the candidates for evidence within a budget of characters."""
    return EvidenceOptions(
        pairs=MOST_PAIRS, rules=MOST_RULES, renderings=_RENDERINGS_TO_CHOOSE_FROM, tokenized=tokenized
    )
