"""Links and counts of the aligner."""
