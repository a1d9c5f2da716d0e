"""The samplers once more, in plain Python: slow, obviously right, and written from the model alone."""
