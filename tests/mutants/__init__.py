"""Faults inserted into a copy of the code, one at a time: the named tests must fail on each."""
