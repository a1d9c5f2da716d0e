"""Routes of the translation memory: fuzzy matches by amagama's protocol at /tmserver, and TMX export."""

import re
from http import HTTPStatus
from typing import Annotated

from fastapi import APIRouter, Path, Query
from pydantic import AwareDatetime, BaseModel, BeforeValidator, Field
from starlette.responses import Response

from hierogram.daemon.text.languages import base_language
from hierogram.daemon.web.protocol.context import Service
from hierogram.daemon.web.protocol.problems import ProblemError
from hierogram.daemon.web.protocol.threads import Download, Downloads
from hierogram.samplers.grammar.kinds import PAIRS
from hierogram.tools.integrations.translation_memory import FuzzyMatch, nearest
from hierogram.tools.integrations.translation_memory import memory as export_memory

_MAX_LENGTH = 2_000
_TMX = "application/x-tmx+xml"
_DATE = re.compile(r"\d{4}-\d\d-\d\dT")
_CODE = r"^[A-Za-z]{2,8}([-_][A-Za-z0-9]{1,8})*$"
_PROBLEMS: dict[int | str, dict[str, object]] = {
    404: {"description": "The store has other languages."},
    409: {"description": "The store is monolingual."},
}


class LanguagesAnswer(BaseModel):
    """Languages of the translation memory."""

    source_languages: list[str] = Field(serialization_alias="sourceLanguages")
    target_languages: list[str] = Field(serialization_alias="targetLanguages")


def _check_date(time: str) -> str:
    """Raise `ValueError` unless a time begins with a date: pydantic would parse numbers as seconds."""
    if not _DATE.match(time):
        raise ValueError("must be a date and time such as 2026-01-31T00:00:00Z")
    return time


def memory_routes(service: Service, downloads: Downloads) -> APIRouter:
    """Return the routes of the translation memory. Exports run in the threads of `downloads`."""
    router = APIRouter(tags=["memory"])

    @router.get("/tmserver/languages/", responses={409: _PROBLEMS[409]})
    def languages() -> LanguagesAnswer:
        """Return the languages of the store, or empty lists if they are unknown."""
        codes = [language.replace("-", "_").lower() for language in _languages(service)]
        return LanguagesAnswer(source_languages=codes[:1], target_languages=codes[1:])

    @router.get("/tmserver/{source}/{target}/unit/{text:path}", responses=_PROBLEMS)
    def unit(
        source: Annotated[str, Path(max_length=40, pattern=_CODE)],
        target: Annotated[str, Path(max_length=40, pattern=_CODE)],
        text: Annotated[str, Path(max_length=_MAX_LENGTH, pattern=r"^[^\x00]*$", description="Text to look up.")],
        min_similarity: Annotated[float, Query(ge=0, le=100, description="Minimum quality.")] = 50,
        max_candidates: Annotated[int, Query(ge=1, le=50, description="Maximum number of pairs.")] = 5,
    ) -> list[FuzzyMatch]:
        """Return the pairs most similar to a text, best first."""
        known = _languages(service)
        if known and [base_language(source), base_language(target)] != [*map(base_language, known)]:
            languages = " and ".join(known)
            raise ProblemError(
                HTTPStatus.NOT_FOUND,
                f"no translation memory from {source} to {target}: the languages of the store are {languages}",
            )
        return nearest(service.grammar_store, text, min_similarity, max_candidates)

    @router.get(
        "/v1/memory.tmx",
        response_class=Response,
        responses={200: {"content": {_TMX: {}}}, 409: _PROBLEMS[409]},
    )
    def memory(
        corpus: Annotated[str | None, Query(min_length=1, max_length=200, pattern=r"^[^\x00]*$")] = None,
        since: Annotated[
            Annotated[AwareDatetime, BeforeValidator(_check_date)] | None,
            Query(description="Return pairs added since this time, such as 2026-01-31T00:00:00Z."),
        ] = None,
    ) -> Response:
        """Return a translation memory (TMX 1.4), optionally of one corpus or of pairs added since a time."""
        _languages(service)
        return Download(downloads, export_memory(service.grammar_store, corpus, since), media_type=_TMX)

    return router


def _languages(service: Service) -> tuple[str, ...]:
    """Return the store's languages, or `()` if unknown. Raises `ProblemError` for a store of trees."""
    grammar_kind = service.grammar_store.grammar_kind()
    if grammar_kind.input_kind != PAIRS:
        raise ProblemError(
            HTTPStatus.CONFLICT, f"{grammar_kind.cannot('be a translation memory')}: its sentences are monolingual"
        )
    return tuple(service.grammar_store.settings().languages or ())
