"""Records that the store takes and returns.

Records are treated as immutable. Row types with millions of instances are not frozen, because constructing a frozen
dataclass takes seven times as long. Tokens of a text are joined by one space; alignments are canonical Pharaoh lines
(sorted, without repeats); rule sides are in the notation of `hierogram.samplers.grammar.rules`.
"""
