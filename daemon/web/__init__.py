"""HTTP server: API and pages of a daemon, and the pages of `hierogram browse`."""
