"""Samplers to which the papers compare their own."""
