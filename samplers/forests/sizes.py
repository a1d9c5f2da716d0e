"""The size of a rule, for kernels: see `hierogram.samplers.grammar.sizes`."""

from hierogram.samplers.compiled.jit import njit_inline
from hierogram.samplers.grammar import sizes

pack_size = njit_inline(sizes.pack_size)
length_of = njit_inline(sizes.length_of)
source_terminals_of = njit_inline(sizes.source_terminals_of)
target_terminals_of = njit_inline(sizes.target_terminals_of)
