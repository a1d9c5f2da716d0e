"""What a store knows of a sentence: rules that match it, and pairs that are like it."""
