"""Tables and indexes, and the names of the views."""
