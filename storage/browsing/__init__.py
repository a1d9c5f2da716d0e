"""A store for those who only look: read-only connections, searches, figures, and whatever SQL people ask."""
