"""Errors of the samplers."""

from collections.abc import Sequence


class SamplerError(Exception):
    """Base of all errors that samplers raise."""


class RuleNotationError(SamplerError, ValueError):
    """A text does not follow the rule notation."""


class BracketError(RuleNotationError):
    """A text is not in the bracket notation of trees and forests, or trees cannot be combined."""


class ForestTooLargeError(SamplerError):
    """A pair's forest has more nodes, edges or words than its integer types can represent."""


class DerivationError(SamplerError, ValueError):
    """Encoded derivations or averages are invalid or do not match their pairs.

    `pairs` are the indices of these pairs in the batch, if known. `reason` describes the fault of each of them.
    """

    def __init__(self, message: str, pairs: Sequence[int] = (), reason: str = "") -> None:
        super().__init__(message)
        self.pairs = tuple(pairs)
        self.reason = reason or message


class KeyCollisionError(SamplerError):
    """Two different rules have the same key. Sampling can continue after rekeying with another salt."""


class AlignmentInputError(SamplerError, ValueError):
    """Sentences, options or counts of an alignment are invalid, for example a sentence that is too long."""


class GrammarError(SamplerError):
    """A grammar has an unusable rule or unary rules of infinite weight, or does not derive the input."""
