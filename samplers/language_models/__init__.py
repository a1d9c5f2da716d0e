"""N-gram language models: queries, building from n-grams, vocabularies, estimation."""
