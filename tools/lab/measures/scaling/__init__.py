"""Costs of sampling by several workers."""
