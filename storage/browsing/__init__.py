"""Read-only access for users: connections, searches, figures, and SQL queries."""
