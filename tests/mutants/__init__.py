"""Faults put into a copy of the samplers, one at a time: the tests must fail on each."""
