"""Rules, their notation and their size limits. Requires only numpy, so that storage can use this package."""
