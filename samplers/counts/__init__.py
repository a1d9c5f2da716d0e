"""Rule counts, the rule probabilities that follow from them, and rules as text."""
