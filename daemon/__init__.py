"""Run everything: command line, ingest, learning, export; the only part that talks to people."""
