"""Exports: grammar files that decoders and analysis tools read."""
