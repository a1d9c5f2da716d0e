"""HTTP server of the daemon: API and pages."""
