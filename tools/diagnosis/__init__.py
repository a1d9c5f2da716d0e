"""Convergence diagnosis from several chains over the same pairs."""
