"""Sampled grammars beside the heuristic ones: Table 2 of [CFGŠ14] for any bitext, without translating."""
