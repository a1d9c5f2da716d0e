"""OpenAPI document: FastAPI's description of the routes, with responses common to all routes added."""

import re
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI

MEDIA_TYPE = "application/problem+json"
"""Media type of error responses [RFC 9457]."""

_PROBLEM_SCHEMA = {
    "title": "Problem",
    "description": "Error [RFC 9457]. Some errors have further members.",
    "type": "object",
    "required": ["title", "status", "detail"],
    "properties": {
        "title": {"type": "string", "description": "Reason phrase of the status."},
        "status": {"type": "integer"},
        "detail": {"type": "string", "description": "Human-readable explanation of the problem and its solution."},
    },
}
_PROBLEM_REFERENCE = {"schema": {"$ref": "#/components/schemas/Problem"}}

_COMMON_RESPONSES = {
    400: "The query is malformed, or a parameter is unknown or repeated.",
    421: "The header Host does not name this machine, and the daemon has no token.",
    429: "Too many requests from this address. See Retry-After.",
    500: "Internal error. See the log of the daemon.",
    503: "The store does not respond, or too many requests are running. See Retry-After.",
}

MEMORY_PREFIX = "/tmserver/"
"""Path prefix of the translation-memory API, whose clients may send the token as a password."""

API_PREFIXES = ("/v1/", MEMORY_PREFIX, "/healthz", "/readyz", "/metrics", "/openapi.json", "/mcp")
"""Path prefixes of the API. All other paths are pages."""

LIVENESS_PATH = "/healthz"
HEALTH_PATHS = (LIVENESS_PATH, "/readyz")
"""Paths of health checks. They need no token, because load balancers do not have one."""


class DescribedApi(FastAPI):
    """FastAPI application with a completed OpenAPI document.

    If `with_token` is True, all operations except health checks require a bearer token.
    """

    def __init__(self, *, with_token: bool, **settings: Any) -> None:
        super().__init__(**settings)
        self._with_token = with_token
        self._described: dict[str, Any] | None = None

    def openapi(self) -> dict[str, Any]:
        """Return the OpenAPI document. FastAPI rebuilds it after routes are added."""
        document = super().openapi()
        if document is not self._described:
            _complete(document, self._with_token)
            self._described = document
        return document


def _complete(document: dict[str, Any], with_token: bool) -> None:
    components = document.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    # Drop FastAPI's schemas of validation errors, because this API returns problems instead.
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    schemas["Problem"] = _PROBLEM_SCHEMA
    if with_token:
        components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    for path, _, operation in operations(document):
        for parameter in operation.get("parameters", ()):
            # Remove null from the schema of an optional parameter, because a query cannot express null.
            schema = parameter["schema"]
            choices = [choice for choice in schema.get("anyOf", ()) if choice != {"type": "null"}]
            if len(choices) == 1:
                parameter["schema"] = {name: schema[name] for name in schema if name != "anyOf"} | dict(choices[0])
        responses = operation["responses"]
        for status, text in _COMMON_RESPONSES.items():
            responses.setdefault(str(status), {"description": text})
        invalid_response = responses.get("422")
        # Replace FastAPI's 422 response, because its schema is dropped. Keep a response that the route declares.
        is_replaceable = not invalid_response or "HTTPValidationError" in str(invalid_response.get("content"))
        if operation.get("parameters") and is_replaceable:
            responses["422"] = {"description": "The value of a parameter is invalid."}
        if with_token and path not in HEALTH_PATHS:
            operation["security"] = [{"token": []}]
            responses["401"] = {"description": "The token is missing or invalid."}
        for status, response in responses.items():
            if int(status) >= HTTPStatus.BAD_REQUEST:
                response.setdefault("content", {})[MEDIA_TYPE] = _PROBLEM_REFERENCE
        operation["responses"] = dict(sorted(responses.items()))


def operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Yield the path, method and description of each operation."""
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield path, method.upper(), operation


def methods_at(document: dict[str, Any], path: str) -> list[str]:
    """Return the sorted methods of a request path. Empty for an unknown path."""
    methods: set[str] = set()
    for template, method, _ in operations(document):
        pattern = re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(template))
        if re.fullmatch(pattern, path):
            methods.add(method)
    return sorted(methods)
