"""Commands for the tables and figures of the papers, and for related figures in docs/."""
