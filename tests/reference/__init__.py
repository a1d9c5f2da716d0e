"""Plain-Python twins of the samplers: slow, easy to check, and written from the model alone."""
