"""How far chains can be trusted: agreement, effective sample sizes, Monte Carlo errors, overlap of grammars."""
