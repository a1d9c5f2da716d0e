"""Read-only access for people: connections, searches, figures, and SQL questions."""
