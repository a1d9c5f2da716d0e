"""Values: what a rule is, how it is written, how long it may be. Python and numpy alone; storage may import it."""
