"""Snapshots, which exports read, and the list of exports."""
