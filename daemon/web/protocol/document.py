"""The OpenAPI document: what FastAPI gathers from the routes, and what holds for all of them."""

import re
from collections.abc import Iterator
from http import HTTPStatus
from typing import Any

from fastapi import FastAPI

MEDIA_TYPE = "application/problem+json"
"""Of every answer that says what went wrong."""

_PROBLEM = {
    "title": "Problem",
    "description": "What went wrong [RFC 9457]; some problems say more, each in members of its own.",
    "type": "object",
    "required": ["title", "status", "detail"],
    "properties": {
        "title": {"type": "string", "description": "The status in words."},
        "status": {"type": "integer"},
        "detail": {"type": "string", "description": "What was wrong, and what to do, for people."},
    },
}
_REFERENCE = {"schema": {"$ref": "#/components/schemas/Problem"}}

_EVERYWHERE = {
    400: "There is no such query parameter, or one that may come once comes several times.",
    421: "The request is not addressed to this machine, and the daemon has no token.",
    429: "This address asks too often. See Retry-After.",
    500: "The daemon failed at this request; its log says more.",
    503: "Not now: the store does not answer. See Retry-After.",
}
_WRONG_VALUE = "The value of a parameter is wrong."
_NO_TOKEN = "The token is missing or wrong."

MEMORY = "/tmserver/"
"""Where programs ask for a translation memory, which may show the token as a password."""

OF_THE_API = ("/v1/", MEMORY, "/healthz", "/readyz", "/metrics", "/openapi.json", "/mcp")
"""How the addresses of the API begin; all others are pages."""

ALIVE = "/healthz"
OPEN_PATHS = (ALIVE, "/readyz")
"""Health checks, which need no token: service managers and load balancers do not have it."""


def describe(app: FastAPI, *, with_token: bool) -> None:
    """Has the app's document tell what every route may answer; `with_token`: also, that they ask for a token."""
    gather = app.openapi
    made: list[dict[str, Any]] = []

    def openapi() -> dict[str, Any]:
        if not made:
            document = gather()
            _complete(document, with_token)
            made.append(document)
        return made[0]

    app.openapi = openapi  # type: ignore[method-assign]


def _complete(document: dict[str, Any], with_token: bool) -> None:
    components = document.setdefault("components", {})
    schemas = components.setdefault("schemas", {})
    # FastAPI's own form of a wrong parameter, which is not ours.
    for name in ("HTTPValidationError", "ValidationError"):
        schemas.pop(name, None)
    schemas["Problem"] = _PROBLEM
    if with_token:
        components["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
    for path, _, operation in operations(document):
        for parameter in operation.get("parameters", ()):
            parameter["schema"] = _without_null(parameter["schema"])
        answers = operation["responses"]
        for status, text in _EVERYWHERE.items():
            answers.setdefault(str(status), {"description": text})
        wrong = answers.get("422")
        # FastAPI's own, or none.
        if operation.get("parameters") and (not wrong or "HTTPValidationError" in str(wrong.get("content"))):
            answers["422"] = {"description": _WRONG_VALUE}
        if with_token and path not in OPEN_PATHS:
            operation["security"] = [{"token": []}]
            answers["401"] = {"description": _NO_TOKEN}
        for status, answer in answers.items():
            if int(status) >= HTTPStatus.BAD_REQUEST:
                answer.setdefault("content", {})[MEDIA_TYPE] = _REFERENCE
        operation["responses"] = dict(sorted(answers.items()))


def _without_null(schema: dict[str, Any]) -> dict[str, Any]:
    """The form of a parameter that may be left out: that it is null then cannot be written in a request."""
    forms = [form for form in schema.get("anyOf", ()) if form != {"type": "null"}]
    if len(forms) != 1:
        return schema
    return {name: value for name, value in schema.items() if name != "anyOf"} | dict(forms[0])


def operations(document: dict[str, Any]) -> Iterator[tuple[str, str, dict[str, Any]]]:
    """Path, method and description of every operation of a document."""
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            yield path, method.upper(), operation


def query_parameters(document: dict[str, Any], method: str, path: str) -> dict[str, bool]:
    """The query parameters of an operation, and whether each may come several times; none for an unknown one."""
    operation = document["paths"].get(path, {}).get(method.lower(), {})
    return {
        parameter["name"]: parameter["schema"].get("type") == "array"
        for parameter in operation.get("parameters", ())
        if parameter["in"] == "query"
    }


def methods_at(document: dict[str, Any], path: str) -> list[str]:
    """The methods that the document has for the path of a request; none where it does not know the path."""
    found: set[str] = set()
    for template, method, _ in operations(document):
        pattern = re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(template))
        if re.fullmatch(pattern, path):
            found.add(method)
    return sorted(found)
