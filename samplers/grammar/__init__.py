"""Rules, their notation and their size limits. Uses only Python and numpy, so storage may import it."""
