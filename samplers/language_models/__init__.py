"""N-gram language models: queries, construction from n-grams, vocabularies, ARPA lines."""
