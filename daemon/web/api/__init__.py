"""Routes of the HTTP API."""
