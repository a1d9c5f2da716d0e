"""Tables, indexes and views."""
