"""Costs of sampling with several workers."""
