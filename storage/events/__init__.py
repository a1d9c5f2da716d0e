"""Events: a feed that clients read by position, and webhook deliveries."""
