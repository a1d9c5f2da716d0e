"""Rules, their notation and their size limits. Needs only numpy, so that storage can use it."""
