"""Queries for rules."""

from dataclasses import dataclass
from typing import Annotated

from hierogram.daemon.shared_options import LIMIT
from hierogram.storage.options import Option


@dataclass(frozen=True, kw_only=True)
class RuleQuery:
    """Query for rules with these sides, in order of use."""

    source: Annotated[str | None, Option("Exact source side of the rules.", metavar="SIDE")] = None
    target: Annotated[str | None, Option("Exact target side of the rules.", metavar="SIDE")] = None
    limit: Annotated[int, LIMIT] = 20
