"""Errors of the samplers."""


class SamplerError(Exception):
    """Base of all errors that samplers raise."""


class RuleNotationError(SamplerError, ValueError):
    """A text is not the notation of a rule."""


class BracketError(RuleNotationError):
    """A text is not the notation of a tree, forest or fragment."""


class ForestTooLargeError(SamplerError):
    """A pair's forest has more nodes than a pair-local node number can name."""


class DerivationError(SamplerError, ValueError):
    """An encoded derivation does not fit its forest."""


class KeyCollisionError(SamplerError):
    """Two different rules have the same key under the present salt; sampling must go on under another."""


class AlignmentInputError(SamplerError, ValueError):
    """Sentences that cannot be aligned: sides of different length, a sentence beyond all bounds, an unknown model."""


class GrammarError(SamplerError):
    """A grammar gives some derivations no finite weight."""


class ChartTooLargeError(SamplerError):
    """A chart has more edges than it may have."""


class UnknownKindError(SamplerError):
    """No kind of grammar has this name."""


class LanguageModelError(SamplerError, ValueError):
    """A language model that cannot be built: n-grams of no possible order, or no text to estimate from."""
