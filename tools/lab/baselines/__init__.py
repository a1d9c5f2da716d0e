"""Samplers that the papers compare their own with."""
