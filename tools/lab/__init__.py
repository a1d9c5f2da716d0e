"""Experiments, baselines and measurements; not in the wheel."""
