"""What must hold between the tables of a store, and how it is made to hold again."""
