"""The kinds of grammar that can be learned: what each one loads, begins with, sweeps over, counts and shows."""
