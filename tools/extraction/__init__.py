"""Heuristic extraction of hierarchical rules, the baseline of comparisons [Chiang 2007]."""
