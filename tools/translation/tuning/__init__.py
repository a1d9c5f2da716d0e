"""Evaluation of translations against references, and weight tuning."""
