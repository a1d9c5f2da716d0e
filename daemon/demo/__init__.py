"""The demo's data."""
