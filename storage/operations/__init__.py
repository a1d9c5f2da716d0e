"""Claims, requests, settings and checks of a store."""
