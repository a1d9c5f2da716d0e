"""N-gram language models: queries, building them from n-grams, vocabularies, estimation."""
