"""Claims, requests and settings of a store."""
