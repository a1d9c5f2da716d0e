"""Errors of the samplers."""


class SamplerError(Exception):
    """Base of all errors that samplers raise."""


class RuleNotationError(SamplerError, ValueError):
    """A text does not follow the rule notation."""


class BracketError(RuleNotationError):
    """A text does not follow the notation of trees, forests or fragments."""


class ForestTooLargeError(SamplerError):
    """A pair's forest has more nodes than a pair-local node number can represent."""


class DerivationError(SamplerError, ValueError):
    """An encoded derivation does not fit its forest."""


class KeyCollisionError(SamplerError):
    """Two different rules have the same key under the current salt; sampling must continue under another salt."""


class AlignmentInputError(SamplerError, ValueError):
    """Sentences that cannot be aligned: sides of different length, a sentence that is too long, an unknown model."""


class GrammarError(SamplerError):
    """A grammar gives some derivations a weight that is not finite."""


class ChartTooLargeError(SamplerError):
    """A chart exceeds the maximum number of edges."""


class UnknownKindError(SamplerError):
    """Unknown kind of grammar."""


class LanguageModelError(SamplerError, ValueError):
    """A language model cannot be built: invalid order, or no text to estimate from."""
