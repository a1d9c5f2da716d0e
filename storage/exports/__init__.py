"""Snapshots for exports, and records of exports and scheduled jobs."""
