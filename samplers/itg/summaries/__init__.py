"""What ITG derivations say: links of words, which rules they use, and how often on average."""
