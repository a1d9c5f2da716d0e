"""Inversion transduction grammars of unaligned sentence pairs, sampled derivation by derivation [BC10]."""
