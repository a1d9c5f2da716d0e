"""Evidence for a sentence from a store: matching rules, similar pairs, and dictionary entries."""
