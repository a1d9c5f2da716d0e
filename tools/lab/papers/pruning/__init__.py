"""Measurements of randomized pruning [BPK09]."""
