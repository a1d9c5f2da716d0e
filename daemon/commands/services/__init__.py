"""Commands for daily work with what a store knows: links that people fix or forbid, terms, how it gets on."""
