"""Sampling on several machines: workers that share out the blocks of each round."""
