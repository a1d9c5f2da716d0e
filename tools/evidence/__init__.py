"""Evidence of a store for a sentence: rules that match it, and pairs that are like it."""
