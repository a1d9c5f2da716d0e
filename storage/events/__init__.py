"""Changes: a feed that others read from where they left off, and what was sent on to webhooks."""
