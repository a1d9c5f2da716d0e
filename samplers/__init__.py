"""Forests, rules, rule models and samplers. Only numerics, without SQL, files, clock or logging."""
