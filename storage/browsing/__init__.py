"""Read-only access for users: rule search, pair and word details, similar pairs, progress, SQL."""
