"""Learning: word alignment, sampling, withdrawal, verification and repair of stored pairs."""
