"""A command for each table and figure of the papers, and for the related figures in docs/."""
