"""Kinds of grammar that can be learned: loading, initial states, sweeps, counting and display of each."""
