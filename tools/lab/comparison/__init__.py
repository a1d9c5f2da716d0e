"""Comparison of sampled and heuristic grammars without translation, as in Table 2 of [CFGŠ14]."""
