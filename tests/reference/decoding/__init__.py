"""The decoder's twin in plain Python."""
