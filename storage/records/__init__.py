"""Records that the store takes and returns.

Treat records as immutable. Row types with millions of instances are not frozen, because constructing a frozen dataclass
takes seven times as long. Tokens of a text are joined by one space. Alignments are canonical Pharaoh lines (sorted,
without repeats). Rule sides are in the notation of `hierogram.samplers.grammar.rules`.
"""
