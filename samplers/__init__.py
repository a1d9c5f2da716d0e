"""Numerics only: forests, rules, rule models and samplers; no SQL, files, clock or logging."""
