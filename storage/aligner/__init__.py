"""The aligner's links and counts."""
