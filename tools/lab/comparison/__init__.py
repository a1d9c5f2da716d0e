"""Comparison of sampled and heuristic grammars: Table 2 of [CFGŠ14] for any bitext, without translation."""
