"""The scratch database of an export: rules, lexicon, notation and filters in SQL."""
