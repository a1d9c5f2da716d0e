"""Sampling by Ray workers on one or several machines: each worker samples a part of every round."""
