"""Events: a feed that clients read by event id, and webhook deliveries."""
