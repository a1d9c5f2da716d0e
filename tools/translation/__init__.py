"""Answers to other people's programs in plain text: translations, what people corrected, nearest pairs."""
