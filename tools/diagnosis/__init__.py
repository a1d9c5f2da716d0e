"""Convergence diagnosis: several chains over the same pairs."""
