"""Tools for learned stores, and experiments (`lab`)."""
