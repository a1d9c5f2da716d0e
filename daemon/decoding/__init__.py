"""Translating: grammars from files and stores, weights, fixed words, sentences in and translations out."""
