"""Inversion transduction grammars of unaligned sentence pairs: samplers of derivations [BC10]."""
