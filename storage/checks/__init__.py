"""Checks of what must hold between the tables of a store, and its repair."""
