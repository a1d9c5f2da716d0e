"""A command for each table and figure of the papers, and for the figures of docs/ that go with them."""
