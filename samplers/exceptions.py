"""Errors of the samplers."""

from collections.abc import Sequence


class SamplerError(Exception):
    """Base of all errors that samplers raise."""


class RuleNotationError(SamplerError, ValueError):
    """A text does not follow the rule notation."""


class BracketError(RuleNotationError):
    """A text does not follow the notation of trees, forests or fragments."""


class ForestTooLargeError(SamplerError):
    """A pair's forest has more nodes than a pair-local node number can represent."""


class DerivationError(SamplerError, ValueError):
    """Encoded derivations do not fit their pairs: `pairs` are batch indices, if known; `reason` applies to all."""

    def __init__(self, message: str, pairs: Sequence[int] = (), reason: str = "") -> None:
        super().__init__(message)
        self.pairs = tuple(pairs)
        self.reason = reason or message


class KeyCollisionError(SamplerError):
    """Two different rules have the same key under the current salt; sampling must continue under another salt."""


class AlignmentInputError(SamplerError, ValueError):
    """Sentences cannot be aligned: sides of different length, a sentence that is too long, an unknown model."""


class GrammarError(SamplerError):
    """The weights of some derivations under a grammar are not finite."""
