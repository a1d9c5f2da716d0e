"""Dictionaries and lists of terms: TBX, CSV, TSV."""
