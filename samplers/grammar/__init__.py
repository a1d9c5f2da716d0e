"""Rules, their notation and their size limits. Imports only Python and numpy, so that storage can use it."""
