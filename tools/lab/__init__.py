"""Experiments, baselines and measurements, which are not in the wheel."""
