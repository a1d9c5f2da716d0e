"""Experiments, baselines and measurements. Not part of the wheel."""
