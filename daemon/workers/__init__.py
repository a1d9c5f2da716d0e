"""Sampling on several machines: workers that share the blocks of each round."""
