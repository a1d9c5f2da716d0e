"""Learning: pairs in memory, sweeps, commits, withdrawal, verification."""
