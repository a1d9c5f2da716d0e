"""Parts that all routes share: problem responses, parameters, OpenAPI document, and the daemon interface."""
