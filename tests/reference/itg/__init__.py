"""The twins of the ITG's samplers."""
