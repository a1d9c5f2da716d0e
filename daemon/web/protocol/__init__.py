"""Code that all routes share: problem responses, parameters, OpenAPI document, sessions and threads."""
