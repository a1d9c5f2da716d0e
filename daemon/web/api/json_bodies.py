"""Bodies of requests that are one JSON object: read in bounded memory, checked against what the document says."""

import json
from http import HTTPStatus
from typing import TypeVar

from fastapi import Request
from pydantic import BaseModel, ValidationError

from hierogram.daemon.web.protocol.bodies import whole
from hierogram.daemon.web.protocol.problems import ProblemError, faults_of, said

JSON = "application/json"

_Body = TypeVar("_Body", bound=BaseModel)


def json_body(model: type[BaseModel]) -> dict[str, object]:
    """What the OpenAPI document says of a body that `read_json` reads."""
    return {"requestBody": {"required": True, "content": {JSON: {"schema": _inlined(model.model_json_schema())}}}}


def _inlined(schema: dict[str, object]) -> dict[str, object]:
    """The schema without definitions of its own, which would stand in the wrong place of the document."""
    definitions = schema.pop("$defs", {})
    assert isinstance(definitions, dict)

    def resolved(value: object) -> object:
        if isinstance(value, dict):
            name = str(value.get("$ref", "")).rpartition("/")[2]
            return resolved(definitions[name]) if name else {key: resolved(item) for key, item in value.items()}
        return [resolved(item) for item in value] if isinstance(value, list) else value

    found = resolved(schema)
    assert isinstance(found, dict)
    return found


async def read_json(request: Request, model: type[_Body], most_bytes: int) -> _Body:
    """The body as its model; raises `ProblemError` where it is too large, is not called JSON, or is something else."""
    kind = request.headers.get("content-type", "").split(";")[0].strip().lower()
    if kind != JSON:
        raise ProblemError(
            HTTPStatus.UNSUPPORTED_MEDIA_TYPE, f"the body is called {kind or 'nothing'!r}: send JSON as `{JSON}`"
        )
    content = await whole(request, most_bytes)
    try:
        return model.model_validate(json.loads(content))
    except ValidationError as error:
        faults = faults_of(error.errors())
        raise ProblemError(HTTPStatus.UNPROCESSABLE_ENTITY, said(faults), faults=faults) from error
    except (ValueError, RecursionError) as error:
        raise ProblemError(HTTPStatus.UNPROCESSABLE_ENTITY, f"the body is no JSON: {error}") from error
